// SPDX-License-Identifier: Apache-2.0
#include "run/trainer.hpp"

#include <fmt/format.h>

#include <csignal>
#include <vector>

#include "config/elastic_range.hpp"
#include "machine/gather_texts.hpp"
#include "run/autotune.hpp"
#include "run/matmul_plans.hpp"
#include "run/print_run_info.hpp"
#include "run/share_gradients.hpp"
#include "run/signal_handler.hpp"
#include "text/plural.hpp"
#include "training/non_finite.hpp"

namespace muster {

Trainer::Trainer(const Options& options, Job& job)
    : options_(options),
      job_(job),
      ranks_(options, job),
      world_(ranks_.host()),
      errors_(world_),
      schedule_(learning_rate_schedule(options)),
      output_(options),
      join_requests_(options, job) {}

int Trainer::train() {
  const SignalHandler signal_handler;
  try {
    options_.join ? join_run() : prepare();
    const Summary& facts = parts_.facts;
    Progress progress(is_rank0(), options_.log_every, options_.steps,
                      Throughput(facts.flops_per_token, facts.peak_flops),
                      facts.unit == "image" ? "images" : "tokens");
    for (bool after_change = options_.join; !run(progress, after_change);) after_change = true;
  } catch (const std::exception& error) {
    if (is_rank0()) output_.write_failure(error, status(RunStatus::State::failed));
    const auto* const ended = dynamic_cast<const CollectiveAbort*>(&error);
    if (ended != nullptr && is_rank0()) ranks_.release_spares(ended->exit_code());
    throw;
  }
  if (ranks_.is_spare()) return exit_code_;
  const int code = signal_ == SIGINT ? 128 + signal_ : 0;
  if (is_rank0()) ranks_.release_spares(code);
  return code;
}

bool Trainer::run(Progress& progress, bool after_change) {
  try {
    if (ranks_.is_spare()) {
      if (const auto code = ranks_.wait_for_end()) {
        exit_code_ = *code;
        return true;
      }
    } else if (run_to_end(progress, after_change)) {
      return true;
    }
    change_members(progress, std::nullopt);
  } catch (const Error& error) {
    if (elastic_range(options_).least == 0 || error.code() != ErrorCode::lost_rank) throw;
    change_members(progress, error);
  }
  return false;
}

bool Trainer::run_to_end(Progress& progress, bool after_change) {
  if (after_change)
    validate_and_save(progress);
  else if (needs_validation())
    validate(progress);
  if (!is_stopped() && !loop(progress)) return false;
  // The validation and the checkpoint need the same parameters on all ranks.
  if (const auto done = strategy().synchronize(); done && is_rank0()) recorder_->synchronization(*done);
  if (!is_stopped() && validated_step_ != state().step) validate(progress);
  if (!checkpointer_->has_saved(state().step)) save(progress);
  finish(progress);
  return true;
}

void Trainer::prepare() {
  CollectiveErrors all(job_.host_world());
  parts_ = prepare_run(options_, job_, ranks_, output_, all);
  if (ranks_.is_spare()) return;
  checkpointer_ = std::make_unique<Checkpointer>(options_, state(), strategy(), world_, errors_);
  checkpointer_->resume();
  parts_.facts.first_step = state().step;
  errors_.run_on_rank0([&] {
    recorder_ =
        std::make_unique<Recorder>(options_, parts_.facts, checkpointer_->continues_folder(), started_);
  });
  if (is_rank0()) print_run_info(options_, job_, ranks_, parts_);
  autotune(options_, parts_, checkpointer_->resumed(), world_, errors_);
  errors_.run_on_rank0([&] { output_.write_status(status(RunStatus::State::running)); });
}

RunStatus Trainer::status(RunStatus::State run_state) const {
  RunStatus status{run_state, state().step, options_.steps, {}, history_.lost_hosts()};
  if (checkpointer_) status.checkpoint = checkpointer_->good();
  return status;
}

void Trainer::save(Progress& progress) {
  write_matmul_plans(options_, *parts_.compute, world_, errors_);
  checkpointer_->save(progress, [&] {
    flush();
    return recorder_->report_writer(summary(progress, "running"));
  });
}

std::string Trainer::stop_reason() const {
  if (signal_ != 0) return fmt::format("stopped by signal {}", signal_);
  return fmt::format("stopped with {} of at least {}", plural(world_.size(), "rank"),
                     elastic_range(options_).least);
}

void Trainer::finish(Progress& progress) {
  const auto left_out = gather_lines(world_, strategy().left_out());
  if (is_rank0()) recorder_->left_out(progress, left_out);
  write_matmul_plans(options_, *parts_.compute, world_, errors_);
  const std::string picture = strategy().draw_last_step();
  if (is_rank0()) recorder_->step_picture(picture);
  errors_.run_on_rank0([&] {
    checkpointer_->finish(progress, true);
    const std::string why = stop_reason();
    if (is_stopped())
      progress.line(fmt::format("{} after step {}: start it again to go on", why, state().step));
    recorder_->write_results(summary(progress, is_stopped() ? why : "finished"));
    output_.write_status(status(!is_stopped()                              ? RunStatus::State::finished
                                : too_few_ranks_ || is_preemption(signal_) ? RunStatus::State::unfinished
                                                                           : RunStatus::State::stopped));
  });
}

// The next step is queued on a GPU before the result of the last one is read, so that the GPU never waits.
bool Trainer::loop(Progress& progress) {
  while (state().step < options_.steps) {
    keep_error([&] { checkpointer_->finish(progress, false); });
    begin_step();
    const std::size_t left = must_end_before_next(begun_steps()) ? 0 : strategy().max_in_flight() - 1;
    const bool stops = end_steps(progress, left);
    if (stops) stop(progress);
    if (stops && state().step < options_.steps) {
      signal_ = share_signal(world_);
      return signal_ != 0;
    }
    if (strategy().in_flight() > 0) continue;
    validate_and_save(progress);
    if (signal_ != 0) return true;
  }
  return true;
}

void Trainer::validate_and_save(Progress& progress) {
  if (state().step == 0) return;
  if (is_due(options_.eval_every) && validated_step_ != state().step) validate(progress);
  if (signal_ != 0) return;
  // While updates are skipped, no checkpoint replaces the last good one.
  if (is_due(options_.checkpoint_every) && !checkpointer_->has_saved(state().step) && state().skipped == 0)
    save(progress);
}

void Trainer::stop(Progress& progress) {
  std::int64_t last = begun_steps();
  world_.all_reduce(std::span<std::int64_t>(&last, 1), Reduction::max);
  while (begun_steps() < last) begin_step();
  while (strategy().in_flight() > 0) end_steps(progress, 0);
}

void Trainer::begin_step() {
  const std::int64_t step = begun_steps();
  strategy().begin_step(step, state().samples + (step - state().step) * options_.batch, schedule_.at(step),
                        {received_signal() != 0 || join_requests_.has_any(ranks_, *parts_.workload),
                         output_error_.has_value()});
}

void Trainer::count_step(const StepResult& result) {
  ++state().step;
  state().samples += options_.batch;
  state().skipped = result.finite ? 0 : state().skipped + 1;
  if (recorder_) recorder_->communication(result);
}

bool Trainer::end_steps(Progress& progress, std::size_t left) {
  bool stop = false;
  while (!stop && strategy().in_flight() > left) {
    const StepResult result = strategy().end_step();
    count_step(result);
    if (!result.finite) {
      report_skipped_update(progress, result);
      progress.skip();
    } else if (is_rank0()) {
      record(progress, result);
    }
    if (result.any_failed) {
      errors_.run_on_all([&] {
        if (output_error_) throw *output_error_;
        if (result.error) throw *result.error;
      });
    }
    stop = result.any_stop;
  }
  return stop;
}

void Trainer::end_own_steps(Progress& progress) {
  while (strategy().ends_steps_alone() && strategy().in_flight() > 0) {
    const StepResult result = strategy().end_step();
    count_step(result);
    if (result.finite && recorder_) record(progress, result);
  }
}

void Trainer::change_members(Progress& progress, std::optional<Error> loss) {
  const auto noticed = std::chrono::steady_clock::now();
  MembershipChange change(job_.roster(), ranks_.size());
  std::optional<StateCopy> copy;
  std::optional<bool> kept;
  while (!kept) {
    if (copy) parts_.strategy.reset();  // which rebuild() began
    if (loss) job_.shrink();
    try {
      if (!loss && !join_requests_.accept(ranks_, progress)) return;
      if (!loss) change.grow(job_.roster());
      if (!copy) copy = take_state(progress, loss.has_value());
      use_members();
      if (!loss) job_.host_world().split(0);  // as join_run() does
      const bool has_state = rebuild(*copy);
      if (!loss) share_past(change);
      kept = has_state;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::lost_rank) throw;
      // The error of a further loss has the numbers that the ranks got after the first one.
      if (!loss) loss = error;
    }
  }
  // After a loss, the ranks that are left can have been at different places when they noticed it.
  validated_step_ = -1;
  signal_ = 0;
  too_few_ranks_ = ranks_.size() < elastic_range(options_).least;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - noticed;
  report_change(progress, loss, change, took.count(), *kept);
}

void Trainer::join_run() {
  CollectiveErrors errors(job_.host_world().split(1));
  try {
    parts_ = prepare_joining_rank(options_, job_, ranks_, errors);
  } catch (const CollectiveAbort&) {
    // The ranks of the run have not agreed to end: this one is lost to them, and must not leave in order.
    throw Error(ErrorCode::usage, "--join: this process cannot train", true);
  }
  StateCopy none;
  rebuild(none);
  history_.share(job_.host_world(), parts_.facts);
}

void Trainer::share_past(const MembershipChange& change) {
  // Copies, since a loss during the growth changes what is to be noted.
  Summary facts = parts_.facts;
  MembershipHistory history = history_;
  history.add(change, job_.roster(), ranks_.size(), state().step);
  history.share(job_.host_world(), facts);
}

StateCopy Trainer::take_state(Progress& progress, bool after_loss) {
  if (after_loss && options_.shard_optimizer)
    share_gradients(job_.host_world(), parts_.strategy.get(), state().step);
  if (!parts_.strategy) return {};
  end_own_steps(progress);
  StateCopy copy(strategy(), state());
  parts_.strategy.reset();
  return copy;
}

void Trainer::report_change(Progress& progress, const std::optional<Error>& loss,
                            const MembershipChange& change, double seconds, bool kept) {
  history_.add(change, job_.roster(), ranks_.size(), state().step);
  progress.enable(is_rank0());
  progress.skip();
  if (!is_rank0()) return;
  keep_error([&] { output_.write_status(status(RunStatus::State::running)); });
  recorder_->membership(history_);
  const MembershipChange::Texts texts = change.describe(job_.roster(), ranks_.size());
  if (!texts.added.empty()) progress.line(describe_growth(texts, state().step, ranks_.size(), seconds));
  if (!loss) return;
  progress.line(describe_loss(*loss, texts, state().step, ranks_.size(), seconds) +
                (kept ? "" : "; " + describe_lost_state(checkpointer_->resumed())));
}

void Trainer::use_members() {
  ranks_ = ActiveRanks(options_, job_);
  world_ = ranks_.host();
  errors_ = CollectiveErrors(world_);
}

bool Trainer::rebuild(StateCopy& copy) {
  Communicator all = job_.host_world();
  CollectiveErrors all_errors(all);
  rebuild_strategy(options_, job_, ranks_, parts_, all_errors);
  const std::int64_t ended = state().step;
  const bool kept = copy.collect(all, state());
  if (ranks_.is_spare()) return kept;
  if (kept) strategy().scatter_state(is_rank0() ? copy.tensors() : TrainingTensors{});
  share_algorithms(options_, parts_, world_, errors_);
  errors_.run_on_rank0([&] { output_.take_over(state().step); });
  if (!checkpointer_)
    checkpointer_ = std::make_unique<Checkpointer>(options_, state(), strategy(), world_, errors_);
  checkpointer_->continue_with(strategy(), world_);
  if (!kept) {
    state().step = state().samples = state().skipped = 0;
    errors_.run_on_rank0([&] { initialize_parameters(options_, strategy()); });
    checkpointer_->resume();
  }
  errors_.run_on_rank0([&] {
    if (recorder_ && kept && state().step >= ended) return;
    if (recorder_) recorder_->flush();
    parts_.facts.first_step = state().step;
    recorder_ = std::make_unique<Recorder>(options_, parts_.facts, true, started_);
  });
  return kept;
}

void Trainer::keep_error(const std::function<void()>& write) {
  if (!is_rank0() || output_error_) return;
  try {
    write();
  } catch (const Error& error) {
    output_error_ = error;
  }
}

void Trainer::record(Progress& progress, const StepResult& result) {
  recorder_->step(progress, state().step, result, schedule_.at(state().step - 1));
  if (progress.due()) keep_error([&] { flush(); });
}

void Trainer::flush() {
  recorder_->flush();
  output_.update_status(status(RunStatus::State::running));
}

void Trainer::report_skipped_update(Progress& progress, const StepResult& result) {
  const std::int64_t skipped = state().skipped;
  const std::string what = fmt::format("loss or gradients are not finite at step {}, {}: update skipped, ",
                                       state().step, describe_non_finite(errors_, job_.roster(), result));
  errors_.run_on_rank0([&] {
    recorder_->skipped_update(state().step);
    if (skipped < options_.stop_after_skipped) {
      progress.line(fmt::format("warning: {}{} of at most {} in a row", what, skipped,
                                options_.stop_after_skipped - 1));
      return;
    }
    recorder_->flush();
    checkpointer_->finish(progress, true);
    try {
      recorder_->write_results(
          summary(progress, fmt::format("stopped: {} in a row skipped", plural(skipped, "update"))));
    } catch (const Error& error) {
      // Only a warning: the reason for the end, thrown below, is more important.
      progress.line(fmt::format("warning: {}", error.what()));
    }
    throw TrainingError(fmt::format("{}{} in a row: stopped; {}; try a lower --learning-rate", what, skipped,
                                    checkpointer_->describe_good()));
  });
}

bool Trainer::needs_validation() {
  if (!checkpointer_->resumed() || options_.resume != "auto" || !is_due(options_.eval_every)) return false;
  std::int32_t is_missing = is_rank0() && !recorder_->has_validation(state().step) ? 1 : 0;
  world_.broadcast(std::span<std::int32_t>(&is_missing, 1), 0);
  return is_missing != 0;
}

void Trainer::validate(Progress& progress) {
  if (parts_.workload->held_out() == 0) return;
  progress.pause_timer();
  Validation found;
  std::int32_t interrupted = 0;
  errors_.run_on_all(
      [&] { found = strategy().validate_share([&] { return (interrupted = received_signal()) != 0; }); });
  world_.all_reduce(std::span<std::int32_t>(&interrupted, 1), Reduction::max);
  if (interrupted != 0) {
    signal_ = share_signal(world_);
    return progress.resume_timer();
  }
  strategy().all_reduce_validation(found);
  if (is_rank0()) recorder_->validation(progress, state().step, found);
  keep_error([&] { flush(); });  // another rank may have to continue the records
  validated_step_ = state().step;
  progress.resume_timer();
}

int train(const Options& options, Job& job) { return Trainer(options, job).train(); }

}  // namespace muster
