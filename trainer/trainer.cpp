// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "interrupt.hpp"
#include "plural.hpp"
#include "run.hpp"
#include "schedule.hpp"

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
      checkpoint_path_(fs::path(options.output) / "checkpoint.safetensors"),
      metrics_path_(fs::path(options.output) / "metrics.jsonl") {}

int Run::train() {
  prepare();
  watch_for_interrupts();
  Progress progress(first(), options_.log_every, first_step_, options_.steps,
                    Pace(flops_per_prediction_, peak_flops_), things());
  loop(progress);
  if (signal_ == 0 && validated_step_ != state_.step) validate(progress);
  if (saved_step_ != state_.step) checkpoint(progress);
  agreement_.on_first_rank([&] {
    if (signal_ != 0) progress.line(fmt::format("stopped by signal {} after step {}", signal_, state_.step));
    write_results(progress);
  });
  return signal_ == 0 ? 0 : 128 + signal_;
}

void Run::loop(Progress& progress) {
  const Schedule schedule{options_.learning_rate, options_.min_learning_rate, options_.warmup,
                          options_.steps};
  const auto is_due = [&](std::int64_t every) { return every > 0 && state_.step % every == 0; };
  while (state_.step < options_.steps) {
    const double learning_rate = schedule.at(state_.step);
    const StepResult result = replica_->step(state_.step, state_.samples, learning_rate,
                                             {interrupt_received() != 0, output_error_.has_value()});
    if (!result.finite) end_not_finite(state_.step + 1, result);
    ++state_.step;
    state_.samples += options_.batch;
    if (first()) record(progress, state_.step, result, learning_rate);
    if (result.any_failed) {
      agreement_.together([&] {
        if (output_error_) throw *output_error_;
        if (result.error) throw *result.error;
      });
    }
    if (result.any_stop) {
      signal_ = stop_signal();
      return;
    }
    if (is_due(options_.eval_every)) validate(progress);
    if (is_due(options_.checkpoint_every)) checkpoint(progress);
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

void Run::end_not_finite(std::int64_t step, const StepResult& result) {
  const auto broken = agreement_.gather(result.finite_here ? 0 : 1);
  agreement_.on_first_rank([&] {
    std::string where = "only in the sum over ranks";
    for (std::size_t rank = 0; rank < broken.size(); ++rank) {
      if (broken[rank] == 0) continue;
      where = fmt::format("on rank {} ({})", rank, job_.roster()[rank].host);
      break;
    }
    throw TrainingFailure(fmt::format(
        "loss or gradients are not finite at step {}, {}: stopped before the update; {}try a lower "
        "--learning-rate",
        step, where,
        saved_step_ >= 0 ? fmt::format("{} holds step {}; ", checkpoint_path_.string(), saved_step_) : ""));
  });
  throw EndedTogether(1);
}

int Run::stop_signal() {
  std::int32_t signal = interrupt_received();
  world_.all_reduce(std::span<std::int32_t>(&signal, 1), Reduction::max);
  return signal;
}

void Run::validate(Progress& progress) {
  if (workload_->held_out() == 0) return;
  progress.pause();
  Validation found;
  agreement_.together([&] { found = replica_->validation_share(); });
  replica_->add_up(found);
  const double loss = found.loss.value();
  const auto count = static_cast<std::int64_t>(found.loss.weight);
  progress.line(fmt::format("validation loss {:.4f} nats/{} over {} {}s{}, after step {}", loss,
                            workload_->unit(), count, workload_->unit(), accuracy_text(found.accuracy),
                            state_.step));
  if (first()) {
    std::optional<std::int64_t> right;
    if (found.accuracy.weight > 0) right = static_cast<std::int64_t>(found.accuracy.sum);
    metrics_->validation(state_.step, loss, count, right);
    if (events_) events_->validation(state_.step, loss);
  }
  validated_step_ = state_.step;
  progress.go_on();
}

void Run::checkpoint(Progress& progress) {
  progress.pause();
  const std::uint64_t hash = replica_->parameter_hash();
  const auto differing = agreement_.differing_ranks(hash);
  agreement_.on_first_rank([&] {
    if (!differing.empty()) {
      throw TrainingFailure(fmt::format("parameters differ from rank 0's on rank {} after step {}: not saved",
                                        fmt::join(differing, ", "), state_.step));
    }
    progress.line(
        fmt::format("parameters identical on {} (hash {:016x})", plural(world_.size(), "rank"), hash));
    try {
      write_checkpoint(checkpoint_path_, state_, replica_->table(), replica_->tensors());
      saved_step_ = state_.step;
      flush_records();
      write_pictures(progress, "running");
    } catch (const Error& error) {
      throw Error(error.fault(),
                  fmt::format("{}; stopped after step {}, {}", error.what(), state_.step,
                              saved_step_ >= 0 ? fmt::format("the checkpoint of step {} is good", saved_step_)
                                               : std::string("nothing was saved before")));
    }
    progress.line(fmt::format("checkpoint {} after step {}", checkpoint_path_.string(), state_.step));
  });
  saved_step_ = state_.step;
  progress.go_on();
}

int train(const Options& options, Job& job) { return Run(options, job).train(); }

}  // namespace muster
