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
  /// In user_init, in a process without privileges (unprivileged_child.hpp). Null when there is nothing to
  /// do: a step without GPUs that nobody asked to be placed.
  /// @throws std::exception with one line that says what is wrong and what to do.
  static std::unique_ptr<Step> plan(spank_handle* spank, const Wish& wish, const Settings& settings,
                                    TopologyCache& cache);

  /// What apply() needs, for the tasks: slurmstepd hands it on and does not look into it.
  std::string to_record() const;
  /// In the task. claims: of the node's tasks; root: the node's.
  /// @throws std::runtime_error when the bytes are not what to_record() gives.
  static std::unique_ptr<Step> from_record(std::string_view bytes, RowClaims claims, const NodeRoot& root);

  /// In task_init, in the task's own process: CPUs, memory policy, environment. The last task of the node
  /// publishes what all have, as the wish says: the node's report, its JSON.
  /// @throws std::exception when Slurm does not say which task this is.
  void apply(spank_handle* spank);

  /// Whether the step has MIG instances: Slurm says in CUDA_VISIBLE_DEVICES which is whose, and that stays.
  bool has_instances() const { return !instances_.empty(); }

  const Wish& wish() const { return wish_; }

 private:
  /// What this task finds of the step's GPUs.
  struct FoundGpus {
    std::vector<int> openable;              // minors of whole GPUs
    bool isolated = false;                  // some of the step's cannot be opened
    bool bound = false;                     // Slurm shows each task its own, see GpuRequest
    bool replaceable = false;               // CUDA_VISIBLE_DEVICES is Slurm's, and another may take its place
    bool unnamed = false;                   // MIG instances that no CUDA_VISIBLE_DEVICES names
    std::vector<placement::PlacedGpu> own;  // Slurm's choice for this task; empty: the plan decides
  };

  friend struct RecordAccess;
  Step() = default;
  Step(SlurmFacts facts, const Wish& wish);
  void prepare_publication(spank_handle* spank);
  placement::NodeReport report(spank_handle* spank, const placement::Placement& actual,
                               const FoundGpus& found) const;
  void leave_cpus_to_user();
  void tell(const std::vector<std::string>& complaints) const;
  void publish(spank_handle* spank, const FoundGpus& found) const;
  placement::Placement actual_placement() const;
  std::string plan_json(spank_handle* spank, const placement::Placement& actual,
                        const FoundGpus& found) const;
  std::vector<placement::PciAddress> addresses_of(const std::vector<int>& minors) const;
  void find_gpus();
  std::vector<std::vector<placement::PciAddress>> bound_by_user() const;
  void find_instances(const std::vector<MigInstance>& all);
  FoundGpus find_own(spank_handle* spank, int local_rank) const;
  FoundGpus find_own_gpus(spank_handle* spank, int local_rank) const;
  FoundGpus find_own_instances(spank_handle* spank) const;
  VisibleChoice choose(const FoundGpus& found) const;
  ShownGpus shown_to(const placement::TaskPlacement& task, const FoundGpus& found) const;
  bool is_dealt_by_default(spank_handle* spank) const;
  void warn(const FoundGpus& found) const;
  void name_own_gpus(spank_handle* spank, const placement::TaskPlacement& task) const;
  void bind(const placement::TaskPlacement& task, int rank) const;

  SlurmFacts facts_;
  Wish wish_;
  placement::Node node_;
  std::vector<int> minors_;  // of the step's whole GPUs
  std::vector<MigInstance> instances_;
  std::vector<int> counted_;                     // of the node's GPUs, where it is sure how CUDA counts
  StepGpus gpus_;                                // both, as placement has them
  std::vector<placement::PlacedGpu> step_gpus_;  // both, whole ones first
  placement::Placement placement_;
  TaskEnvironment environment_;
  RowClaims claims_;
  double plan_milliseconds_ = 0;
  std::optional<ReportAddress> report_address_;
  std::optional<PlanFile> plan_file_;
  const NodeRoot* root_ = nullptr;
};

}  // namespace muster::spank
