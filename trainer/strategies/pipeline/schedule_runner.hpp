// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "strategies/pipeline/schedule_replay.hpp"
#include "strategies/pipeline/stage_links.hpp"
#include "training/stage_model.hpp"

namespace muster::pipeline {

/// What the owner of the stages does around an operation.
struct StageCallbacks {
  /// Before a forward pass: loads the micro-batch's samples into the slot.
  std::function<void(int stage, int micro_batch, int slot)> load;
  /// The backward pass, or one half of it.
  std::function<void(const Operation& operation, int slot)> backward;
};

/// Runs one rank's operations on its stages and exchanges activations and gradients with the neighbours.
class ScheduleRunner {
 public:
  /// `models`: of the local stages, by stage. `times`: operations are done when a call returns, so that
  /// their times can be taken. All arguments outlive it.
  ScheduleRunner(const Plan& plan, std::map<int, StageModel*> models, StageLinks& links, bool times);

  /// One step. Returns when this rank's operations are done; its last sends may still be on their way.
  /// `gradient_scale`: of StageModel::forward().
  void run(const StageCallbacks& callbacks, float gradient_scale);
  /// Forward passes alone. `load` puts a stage's next batch into the slot; what it returns on the first stage
  /// says to all stages whether there was one. `end` follows on the last stage.
  void run_forward(const std::function<bool(int stage, int slot)>& load,
                   const std::function<void(int slot)>& end);

  /// The operations of the last step, in seconds from its beginning on this rank, without the waiting for
  /// messages; none without `times`.
  const std::vector<TimedOperation>& timeline() const noexcept { return timeline_; }

 private:
  void forward(int stage, int slot, float gradient_scale);
  bool is_first(int stage) const { return stage == 0; }
  bool is_last(int stage) const { return stage + 1 == plan_.shape.stages(); }

  const Plan& plan_;
  std::map<int, StageModel*> models_;
  std::map<int, int> slots_;
  StageLinks& links_;
  bool times_;
  std::vector<TimedOperation> timeline_;
};

}  // namespace muster::pipeline
