// SPDX-License-Identifier: Apache-2.0
#include "run/trainer.hpp"

#include <fmt/format.h>

#include <csignal>

#include "run/run.hpp"
#include "run/signal_handler.hpp"
#include "text/plural.hpp"
#include "training/non_finite.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

/// ", 97.31% right (9731)"; empty for a model without accuracy.
std::string accuracy_text(const Average& accuracy) {
  if (accuracy.weight == 0) return "";
  return fmt::format(", {:.2f}% right ({:.0f})", 100 * accuracy.value(), accuracy.sum);
}

}  // namespace

Run::Run(const Options& options, Job& job)
    : options_(options),
      job_(job),
      world_(job.host_world()),
      collective_errors_(world_),
      checkpoints_path_(fs::path(options.output) / "checkpoints"),
      metrics_path_(fs::path(options.output) / "metrics.jsonl"),
      status_path_(options.status.empty() ? fs::path(options.output) / "status.json"
                                          : fs::path(options.status)),
      schedule_{options.learning_rate, options.min_learning_rate, options.warmup, options.steps},
      checkpoints_(checkpoints_path_, options.keep) {}

int Run::train() {
  const SignalHandler signal_handler;
  try {
    prepare();
    Progress progress(is_rank0(), options_.log_every, options_.steps,
                      Throughput(flops_per_prediction_, peak_flops_), unit_name());
    if (needs_validation()) validate(progress);
    if (signal_ == 0) loop(progress);
    if (signal_ == 0 && validated_step_ != state_.step) validate(progress);
    if (last_checkpoint_step_ != state_.step) checkpoint(progress);
    finish(progress);
  } catch (const std::exception& error) {
    write_failure_status(error);
    throw;
  }
  return signal_ == SIGINT ? 128 + signal_ : 0;
}

void Run::finish(Progress& progress) {
  collective_errors_.run_on_rank0([&] {
    finish_checkpoint(progress, true);
    if (signal_ != 0)
      progress.line(
          fmt::format("stopped by signal {} after step {}: start it again to go on", signal_, state_.step));
    write_results(progress, signal_ == 0 ? "finished" : fmt::format("stopped by signal {}", signal_));
    update_status(signal_ == 0             ? RunStatus::State::finished
                  : is_preemption(signal_) ? RunStatus::State::unfinished
                                           : RunStatus::State::stopped);
  });
}

// The next step is queued on a GPU before the result of the last one is read, so that the GPU never waits.
void Run::loop(Progress& progress) {
  while (state_.step < options_.steps) {
    poll_checkpoint_writer(progress);
    begin_step();
    const auto in_flight = replica_->in_flight();
    const bool drain = must_end_before_next(state_.step + static_cast<std::int64_t>(in_flight));
    bool stop = end_steps(progress, drain ? 0 : replica_->max_in_flight() - 1);
    if (stop) end_steps(progress, 0);  // all ranks have begun the next step already
    if (stop && state_.step < options_.steps) {
      signal_ = stop_signal();
      return;
    }
    if (replica_->in_flight() > 0) continue;
    if (is_due(options_.eval_every)) validate(progress);
    if (signal_ != 0) return;
    // While updates are skipped, no checkpoint replaces the last good one.
    if (is_due(options_.checkpoint_every) && state_.skipped == 0) checkpoint(progress);
  }
}

void Run::begin_step() {
  const auto in_flight = static_cast<std::int64_t>(replica_->in_flight());
  const std::int64_t step = state_.step + in_flight;
  replica_->begin_step(step, state_.samples + in_flight * options_.batch, schedule_.at(step),
                       {received_signal() != 0, output_error_.has_value()});
}

bool Run::end_steps(Progress& progress, std::size_t left) {
  bool stop = false;
  while (replica_->in_flight() > left) {
    const StepResult result = replica_->end_step();
    const double learning_rate = schedule_.at(state_.step);
    ++state_.step;
    state_.samples += options_.batch;
    state_.skipped = result.finite ? 0 : state_.skipped + 1;
    if (!result.finite) {
      report_skipped_update(progress, result);
      progress.skip();
    } else if (is_rank0()) {
      record(progress, state_.step, result, learning_rate);
    }
    if (result.any_failed) {
      collective_errors_.run_on_all([&] {
        if (output_error_) throw *output_error_;
        if (result.error) throw *result.error;
      });
    }
    stop = stop || result.any_stop;
  }
  return stop;
}

void Run::poll_checkpoint_writer(Progress& progress) {
  if (!is_rank0() || output_error_) return;
  try {
    finish_checkpoint(progress, false);
  } catch (const Error& error) {
    output_error_ = error;  // thrown on all ranks with this step
  }
}

void Run::record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate) {
  const std::int64_t tokens = replica_->predictions_per_step();
  StepRecord record{done, result.loss, learning_rate, result.gradient_norm, tokens};
  record.exposed_seconds = result.exposed;
  record.seconds = progress.step(done, result.loss, tokens, result.exposed);
  record.mfu = progress.throughput().mfu(record.tokens_per_second());
  communication_seconds_ += result.communication;
  gradient_bytes_ = result.gradient_bytes;
  gathered_bytes_ = result.gathered_bytes;
  metrics_->training(record);
  if (events_) events_->training(record);
  if (!progress.due() || output_error_) return;
  try {
    flush_records();
  } catch (const Error& error) {
    output_error_ = error;  // thrown on all ranks with the next step
  }
}

void Run::flush_records() {
  metrics_->flush();
  if (events_) events_->flush();
}

void Run::report_skipped_update(Progress& progress, const StepResult& result) {
  const std::string what =
      fmt::format("loss or gradients are not finite at step {}, {}: update skipped, ", state_.step,
                  describe_non_finite(collective_errors_, job_.roster(), result));
  collective_errors_.run_on_rank0([&] {
    metrics_->skipped(state_.step);
    const bool last = state_.skipped >= options_.stop_after_skipped;
    if (!last) {
      progress.line(fmt::format("warning: {}{} of at most {} in a row", what, state_.skipped,
                                options_.stop_after_skipped - 1));
      return;
    }
    flush_records();
    finish_checkpoint(progress, true);
    try {
      write_results(progress, fmt::format("stopped: {} in a row skipped", plural(state_.skipped, "update")));
    } catch (const Error& error) {
      // Only a warning: the reason for the end, thrown below, is more important.
      progress.line(fmt::format("warning: {}", error.what()));
    }
    throw TrainingError(fmt::format("{}{} in a row: stopped; {}; try a lower --learning-rate", what,
                                    state_.skipped, describe_good_checkpoint()));
  });
}

int Run::stop_signal() {
  std::int32_t signal = received_signal();
  world_.all_reduce(std::span<std::int32_t>(&signal, 1), Reduction::max);
  return signal;
}

bool Run::needs_validation() {
  if (!resumed_ || options_.resume != "auto" || !is_due(options_.eval_every)) return false;
  std::int32_t must_validate = 0;
  if (is_rank0()) {
    const auto& losses = metrics_->history().validation_loss;
    must_validate = losses.empty() || losses.back().x != state_.step ? 1 : 0;
  }
  world_.broadcast(std::span<std::int32_t>(&must_validate, 1), 0);
  return must_validate != 0;
}

void Run::validate(Progress& progress) {
  if (workload_->held_out() == 0) return;
  progress.pause_timer();
  Validation found;
  std::int32_t interrupted = 0;
  collective_errors_.run_on_all(
      [&] { found = replica_->validate_share([&] { return (interrupted = received_signal()) != 0; }); });
  world_.all_reduce(std::span<std::int32_t>(&interrupted, 1), Reduction::max);
  if (interrupted != 0) {
    signal_ = stop_signal();
    return progress.resume_timer();
  }
  replica_->all_reduce_validation(found);
  const double loss = found.loss.value();
  const auto count = static_cast<std::int64_t>(found.loss.weight);
  progress.line(fmt::format("validation loss {} nats/{} over {} {}s{}, after step {}", format_loss(loss),
                            workload_->unit(), count, workload_->unit(), accuracy_text(found.accuracy),
                            state_.step));
  if (is_rank0()) {
    std::optional<std::int64_t> right;
    if (found.accuracy.weight > 0) right = static_cast<std::int64_t>(found.accuracy.sum);
    const bool is_new = metrics_->validation(state_.step, loss, count, right);
    if (is_new && events_) {
      events_->validation(state_.step, loss,
                          right ? std::optional(found.accuracy.value()) : std::optional<double>());
    }
  }
  validated_step_ = state_.step;
  progress.resume_timer();
}

int train(const Options& options, Job& job) { return Run(options, job).train(); }

}  // namespace muster
