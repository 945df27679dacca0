// SPDX-License-Identifier: Apache-2.0
#include "run/trainer.hpp"

#include <fmt/format.h>

#include <csignal>

#include "run/signal_handler.hpp"
#include "run/run.hpp"
#include "text/plural.hpp"
#include "training/non_finite.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

/// ", 97.31% right (9731)", or nothing for a model that is not asked.
std::string accuracy_text(const Average& accuracy) {
  if (accuracy.weight == 0) return "";
  return fmt::format(", {:.2f}% right ({:.0f})", 100 * accuracy.value(), accuracy.sum);
}

}  // namespace

Run::Run(const Options& options, Job& job)
    : options_(options),
      job_(job),
      world_(job.host_world()),
      agreement_(world_),
      checkpoints_path_(fs::path(options.output) / "checkpoints"),
      metrics_path_(fs::path(options.output) / "metrics.jsonl"),
      status_path_(options.status.empty() ? fs::path(options.output) / "status.json"
                                          : fs::path(options.status)),
      schedule_{options.learning_rate, options.min_learning_rate, options.warmup, options.steps},
      checkpoints_(checkpoints_path_, options.keep) {}

int Run::train() {
  const InterruptWatch watch;
  try {
    prepare();
    Progress progress(first(), options_.log_every, options_.steps, Pace(flops_per_prediction_, peak_flops_),
                      things());
    if (owes_validation()) validate(progress);
    if (signal_ == 0) loop(progress);
    if (signal_ == 0 && validated_step_ != state_.step) validate(progress);
    if (asked_step_ != state_.step) checkpoint(progress);
    finish(progress);
  } catch (const std::exception& error) {
    tell_failure(error);
    throw;
  }
  return signal_ == SIGINT ? 128 + signal_ : 0;
}

void Run::finish(Progress& progress) {
  agreement_.on_first_rank([&] {
    settle(progress, true);
    if (signal_ != 0)
      progress.line(
          fmt::format("stopped by signal {} after step {}: start it again to go on", signal_, state_.step));
    write_results(progress, signal_ == 0 ? "finished" : fmt::format("stopped by signal {}", signal_));
    tell_status(signal_ == 0             ? RunStatus::State::finished
                : is_preemption(signal_) ? RunStatus::State::unfinished
                                         : RunStatus::State::stopped);
  });
}

// A GPU has the next step before it is asked what has become of the last one, so that it waits for nobody.
void Run::loop(Progress& progress) {
  while (state_.step < options_.steps) {
    look_after_writing(progress);
    begin_step();
    const auto under_way = replica_->under_way();
    const bool awaited = is_awaited(state_.step + static_cast<std::int64_t>(under_way));
    bool stop = end_steps(progress, awaited ? 0 : replica_->most_under_way() - 1);
    if (stop) end_steps(progress, 0);  // the next one, begun on all ranks
    if (stop && state_.step < options_.steps) {
      signal_ = stop_signal();
      return;
    }
    if (replica_->under_way() > 0) continue;
    if (is_due(options_.eval_every)) validate(progress);
    if (signal_ != 0) return;
    // The last checkpoint from before the skipped updates is the one to go back to: none replaces it.
    if (is_due(options_.checkpoint_every) && state_.skipped == 0) checkpoint(progress);
  }
}

void Run::begin_step() {
  const auto under_way = static_cast<std::int64_t>(replica_->under_way());
  const std::int64_t step = state_.step + under_way;
  replica_->begin_step(step, state_.samples + under_way * options_.batch, schedule_.at(step),
                       {interrupt_received() != 0, output_error_.has_value()});
}

bool Run::end_steps(Progress& progress, std::size_t left) {
  bool stop = false;
  while (replica_->under_way() > left) {
    const StepResult result = replica_->end_step();
    const double learning_rate = schedule_.at(state_.step);
    ++state_.step;
    state_.samples += options_.batch;
    state_.skipped = result.finite ? 0 : state_.skipped + 1;
    if (!result.finite) {
      tell_skipped(progress, result);
      progress.skip();
    } else if (first()) {
      record(progress, state_.step, result, learning_rate);
    }
    if (result.any_failed) {
      agreement_.together([&] {
        if (output_error_) throw *output_error_;
        if (result.error) throw *result.error;
      });
    }
    stop = stop || result.any_stop;
  }
  return stop;
}

void Run::look_after_writing(Progress& progress) {
  if (!first() || output_error_) return;
  try {
    settle(progress, false);
  } catch (const Error& error) {
    output_error_ = error;  // told to all with the step
  }
}

void Run::record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate) {
  const std::int64_t tokens = replica_->predictions_per_step();
  StepRecord record{done, result.loss, learning_rate, result.gradient_norm, tokens};
  record.exposed_seconds = result.exposed;
  record.seconds = progress.step(done, result.loss, tokens, result.exposed);
  record.mfu = progress.pace().mfu(record.tokens_per_second());
  communication_seconds_ += result.communication;
  gradient_bytes_ = result.gradient_bytes;
  gathered_bytes_ = result.gathered_bytes;
  metrics_->training(record);
  if (events_) events_->training(record);
  if (!progress.due() || output_error_) return;
  try {
    flush_records();
  } catch (const Error& error) {
    output_error_ = error;  // told to all with the next step
  }
}

void Run::flush_records() {
  metrics_->flush();
  if (events_) events_->flush();
}

void Run::tell_skipped(Progress& progress, const StepResult& result) {
  const std::string what = fmt::format("loss or gradients are not finite at step {}, {}: update skipped, ",
                                       state_.step, name_not_finite(agreement_, job_.roster(), result));
  agreement_.on_first_rank([&] {
    metrics_->skipped(state_.step);
    const bool last = state_.skipped >= options_.stop_after_skipped;
    if (!last) {
      progress.line(fmt::format("warning: {}{} of at most {} in a row", what, state_.skipped,
                                options_.stop_after_skipped - 1));
      return;
    }
    flush_records();
    settle(progress, true);
    try {
      write_results(progress, fmt::format("stopped: {} in a row skipped", plural(state_.skipped, "update")));
    } catch (const Error& error) {
      progress.line(fmt::format("warning: {}", error.what()));  // why the run ends counts more
    }
    throw TrainingFailure(fmt::format("{}{} in a row: stopped; {}; try a lower --learning-rate", what,
                                      state_.skipped, name_good_checkpoint()));
  });
}

int Run::stop_signal() {
  std::int32_t signal = interrupt_received();
  world_.all_reduce(std::span<std::int32_t>(&signal, 1), Reduction::max);
  return signal;
}

bool Run::owes_validation() {
  if (!resumed_ || options_.resume != "auto" || !is_due(options_.eval_every)) return false;
  std::int32_t owes = 0;
  if (first()) {
    const auto& told = metrics_->history().validation_loss;
    owes = told.empty() || told.back().x != state_.step ? 1 : 0;
  }
  world_.broadcast(std::span<std::int32_t>(&owes, 1), 0);
  return owes != 0;
}

void Run::validate(Progress& progress) {
  if (workload_->held_out() == 0) return;
  progress.pause();
  Validation found;
  std::int32_t cut = 0;
  agreement_.together(
      [&] { found = replica_->validation_share([&] { return (cut = interrupt_received()) != 0; }); });
  world_.all_reduce(std::span<std::int32_t>(&cut, 1), Reduction::max);
  if (cut != 0) {
    signal_ = stop_signal();
    return progress.go_on();
  }
  replica_->add_up(found);
  const double loss = found.loss.value();
  const auto count = static_cast<std::int64_t>(found.loss.weight);
  progress.line(fmt::format("validation loss {} nats/{} over {} {}s{}, after step {}", format_loss(loss),
                            workload_->unit(), count, workload_->unit(), accuracy_text(found.accuracy),
                            state_.step));
  if (first()) {
    std::optional<std::int64_t> right;
    if (found.accuracy.weight > 0) right = static_cast<std::int64_t>(found.accuracy.sum);
    const bool is_new = metrics_->validation(state_.step, loss, count, right);
    if (is_new && events_) {
      events_->validation(state_.step, loss,
                          right ? std::optional(found.accuracy.value()) : std::optional<double>());
    }
  }
  validated_step_ = state_.step;
  progress.go_on();
}

int train(const Options& options, Job& job) { return Run(options, job).train(); }

}  // namespace muster
