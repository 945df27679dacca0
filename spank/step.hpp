// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_choice.hpp"
#include "mig.hpp"
#include "options.hpp"
#include "placement/node.hpp"
#include "placement/place.hpp"
#include "placement/report.hpp"
#include "slurm_facts.hpp"
#include "step_request.hpp"
#include "task_environment.hpp"
#include "topology_cache.hpp"

namespace muster::spank {

/// One step on one node: planned once for all its tasks, then applied in each task.
class Step {
 public:
  /// In user_init. Null when there is nothing to do: a step without GPUs that nobody asked to be placed.
  /// Publishes the plan as the wish says: the node's report, its JSON.
  /// @throws std::exception with one line that says what is wrong and what to do.
  static std::unique_ptr<Step> plan(spank_handle* spank, const Wish& wish, const Settings& settings,
                                    TopologyCache& cache);

  /// In task_init, in the task's own process: CPUs, memory policy, environment.
  /// @throws std::exception when Slurm does not say which task this is.
  void apply(spank_handle* spank) const;

  /// Whether the step has MIG instances: Slurm says in CUDA_VISIBLE_DEVICES which is whose, and that stays.
  bool has_instances() const { return !instances_.empty(); }

 private:
  Step(SlurmFacts facts, const Wish& wish);
  placement::NodeReport report(spank_handle* spank, double plan_milliseconds) const;
  void leave_cpus_to_user();
  void tell(const std::vector<std::string>& complaints) const;
  void publish(spank_handle* spank, double plan_milliseconds) const;
  std::string plan_json(spank_handle* spank) const;
  std::vector<placement::PciAddress> addresses_of(const std::vector<int>& minors) const;
  void find_gpus();
  std::vector<std::string> own_instances(const std::optional<std::string>& cuda_devices) const;
  placement::TaskPlacement row_of(spank_handle* spank, int local_rank, int rank,
                                  const std::vector<int>& visible, const GpuChoice& choice) const;
  bool is_dealt_by_default(spank_handle* spank) const;
  void bind(const placement::TaskPlacement& task, int rank) const;

  SlurmFacts facts_;
  Wish wish_;
  placement::Node node_;
  std::vector<int> minors_;  // of the step's whole GPUs
  std::vector<MigInstance> instances_;
  StepGpus gpus_;  // both, as placement has them
  placement::Placement placement_;
  TaskEnvironment environment_;
};

}  // namespace muster::spank
