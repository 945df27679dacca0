// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "gpus/row_claims.hpp"
#include "gpus/step_gpus.hpp"
#include "options.hpp"
#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"
#include "report/report_address.hpp"
#include "slurm/slurm_facts.hpp"
#include "step/plan_file.hpp"
#include "step/task_environment.hpp"
#include "step/topology_cache.hpp"

namespace muster::spank {

/// One step on one node: planned once for all its tasks, then applied in each task. Plain data, which the
/// tasks get as bytes (step_record.hpp).
struct Step {
  SlurmFacts facts;
  StepOptions options;
  placement::Node node;
  StepGpus gpus;
  placement::Placement placement;
  TaskEnvironment environment;
  double plan_milliseconds = 0;
  std::optional<ReportAddress> report_address;  ///< of srun's collector; unset: there is none
  std::optional<PlanFile> plan_file;            ///< unset: the user requested none
};

/// In user_init, in a process without privileges (unprivileged_child.hpp). nullopt if there is nothing to do:
/// the user did not request placement, and the step has no GPUs or the node none of NVIDIA's.
/// @throws std::exception with one line: the problem and the remedy.
std::optional<Step> plan_step(spank_handle* spank, const StepOptions& options, const Settings& settings,
                              TopologyCache& cache);

/// In task_init, in the task's own process: sets CPUs, memory policy and environment. The last task of the
/// node writes the outputs that the options request for all its tasks: the node's report, its JSON.
/// claims: of the node's tasks; root: the node's.
/// @throws std::exception if Slurm does not report which task this is.
void apply_step(spank_handle* spank, const Step& step, RowClaims& claims, const NodeRoot& root);

/// In a task that is not placed: removes the variables that Muster set for an outer step, unless they have
/// been changed since; RANK and the like would be wrong. Costs one look-up if there is no outer step.
void clear_outer_step_environment(spank_handle* spank);

}  // namespace muster::spank
