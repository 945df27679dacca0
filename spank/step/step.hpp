// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpus/gpu_assignment.hpp"
#include "gpus/mig.hpp"
#include "gpus/row_claims.hpp"
#include "gpus/visible_gpus.hpp"
#include "options.hpp"
#include "placement/place/place.hpp"
#include "placement/report/report.hpp"
#include "placement/topology/node.hpp"
#include "report/report_address.hpp"
#include "slurm/slurm_facts.hpp"
#include "step/plan_file.hpp"
#include "step/step_request.hpp"
#include "step/task_environment.hpp"
#include "step/topology_cache.hpp"

namespace muster::spank {

/// One step on one node: planned once for all its tasks, then applied in each task.
class Step {
 public:
  /// In user_init, in a process without privileges (unprivileged_child.hpp). Null if there is nothing to do:
  /// the step has no GPUs, and the user did not request placement.
  /// @throws std::exception with one line: the problem and the remedy.
  static std::unique_ptr<Step> plan(spank_handle* spank, const StepOptions& options, const Settings& settings,
                                    TopologyCache& cache);

  /// What apply() needs, for the tasks: slurmstepd passes it on without parsing it.
  std::string to_record() const;
  /// In the task. claims: of the node's tasks; root: the node's.
  /// @throws std::runtime_error if the bytes are not what to_record() returns.
  static std::unique_ptr<Step> from_record(std::string_view bytes, RowClaims claims, const NodeRoot& root);

  /// In task_init, in the task's own process: sets CPUs, memory policy and environment. The last task of the
  /// node writes the outputs that the options request for all its tasks: the node's report, its JSON.
  /// @throws std::exception if Slurm does not report which task this is.
  void apply(spank_handle* spank);

  /// Whether the step has MIG instances. Slurm assigns them to tasks in CUDA_VISIBLE_DEVICES, and that stays.
  bool has_instances() const { return !instances_.empty(); }

  const StepOptions& options() const { return options_; }

 private:
  /// The step's GPUs as this task finds them.
  struct FoundGpus {
    std::vector<int> openable;              // minors of whole GPUs
    bool isolated = false;                  // some of the step's GPUs cannot be opened
    bool bound = false;                     // Slurm shows each task its own GPUs, see GpuRequest
    bool replaceable = false;               // CUDA_VISIBLE_DEVICES is Slurm's, so Muster may replace it
    bool unnamed = false;                   // MIG instances that no CUDA_VISIBLE_DEVICES names
    std::vector<placement::PlacedGpu> own;  // Slurm's choice for this task; empty: the plan decides
  };

  friend struct RecordAccess;
  Step() = default;
  Step(SlurmFacts facts, const StepOptions& options);
  void prepare_outputs(spank_handle* spank);
  placement::NodeReport report(spank_handle* spank, const placement::Placement& actual,
                               const FoundGpus& found) const;
  void leave_cpus_to_user();
  void log_warnings(const std::vector<std::string>& warnings) const;
  void write_outputs(spank_handle* spank, const FoundGpus& found) const;
  placement::Placement actual_placement() const;
  std::string plan_json(spank_handle* spank, const placement::Placement& actual,
                        const FoundGpus& found) const;
  std::vector<placement::PciAddress> find_addresses(const std::vector<int>& minors) const;
  void find_gpus();
  std::vector<std::vector<placement::PciAddress>> bound_by_user() const;
  void find_instances(const std::vector<MigInstance>& all);
  FoundGpus find_task_gpus(spank_handle* spank, int local_rank) const;
  FoundGpus find_whole_task_gpus(spank_handle* spank, int local_rank) const;
  FoundGpus find_task_instances(spank_handle* spank) const;
  VisibleChoice choose_visibility(const FoundGpus& found) const;
  ShownGpus choose_shown_gpus(const placement::TaskPlacement& task, const FoundGpus& found) const;
  bool is_bound_by_default(spank_handle* spank) const;
  void warn(const FoundGpus& found) const;
  void set_slurm_gpu_lists(spank_handle* spank, const placement::TaskPlacement& task) const;
  void bind(const placement::TaskPlacement& task, int rank) const;

  SlurmFacts facts_;
  StepOptions options_;
  placement::Node node_;
  std::vector<int> minors_;  // of the step's whole GPUs
  std::vector<MigInstance> instances_;
  std::vector<int> cuda_minors_;                 // of the node's GPUs; empty if CUDA's order is uncertain
  StepGpus gpus_;                                // GPUs and instances, for the placement's request
  std::vector<placement::PlacedGpu> step_gpus_;  // GPUs and instances, whole GPUs first
  placement::Placement placement_;
  TaskEnvironment environment_;
  RowClaims claims_;
  double plan_milliseconds_ = 0;
  std::optional<ReportAddress> report_address_;
  std::optional<PlanFile> plan_file_;
  const NodeRoot* root_ = nullptr;
};

}  // namespace muster::spank
