// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/schedule_runner.hpp"

#include <chrono>
#include <utility>

namespace muster::pipeline {

ScheduleRunner::ScheduleRunner(const Plan& plan, std::map<int, StageModel*> models, StageLinks& links,
                               bool times)
    : plan_(plan), models_(std::move(models)), links_(links), times_(times) {
  for (const auto& [stage, model] : models_) slots_[stage] = plan.stage_settings(stage).slots;
}

void ScheduleRunner::run(const StageCallbacks& callbacks, float gradient_scale) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  timeline_.clear();
  for (const Operation& operation : plan_.operations) {
    const auto& [kind, stage, micro_batch] = operation;
    StageModel& model = *models_.at(stage);
    const int slot = micro_batch % slots_.at(stage);
    double begin = 0;
    if (kind == OperationKind::forward) {
      callbacks.load(stage, micro_batch, slot);
      if (!is_first(stage)) links_.receive_input(model.input(slot));
      begin = now();
      forward(stage, slot, gradient_scale);
    } else if (kind == OperationKind::backward_weight) {
      begin = now();
      callbacks.backward(operation, slot);
    } else {
      const auto sent = model.input_gradient(slot);
      for (const auto& part : sent) links_.wait_sent(part);
      if (!is_last(stage))
        for (const auto& part : model.output_gradient(slot)) links_.receive_gradient(part);
      begin = now();
      callbacks.backward(operation, slot);
      if (!is_first(stage))
        for (const auto& part : sent) links_.send_gradient(part);
    }
    if (times_) timeline_.push_back({operation, begin, now()});
  }
}

void ScheduleRunner::forward(int stage, int slot, float gradient_scale) {
  StageModel& model = *models_.at(stage);
  const auto output = model.output(slot);
  links_.wait_sent(output);
  model.forward(slot, gradient_scale);
  if (!is_last(stage)) links_.send_output(output);
}

// A word travels ahead of each batch, since the first stage decides whether there is one.
void ScheduleRunner::run_forward(const std::function<bool(int stage, int slot)>& load,
                                 const std::function<void(int slot)>& end) {
  bool is_next = true;
  while (is_next) {
    for (const auto& [stage, model] : models_) {
      if (!is_first(stage)) is_next = links_.receive_is_next();
      if (is_first(stage) || is_next) is_next = load(stage, 0);
      if (!is_last(stage)) links_.send_is_next(is_next);
      if (!is_next) continue;
      if (!is_first(stage)) links_.receive_input(model->input(0));
      forward(stage, 0, 0);
      if (is_last(stage)) end(0);
    }
  }
}

}  // namespace muster::pipeline
