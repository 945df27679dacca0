// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/options.hpp"
#include "muster/muster.hpp"
#include "optimizer/schedule.hpp"
#include "report/progress.hpp"
#include "run/active_ranks.hpp"
#include "run/checkpointer.hpp"
#include "run/join_requests.hpp"
#include "run/membership_change.hpp"
#include "run/membership_history.hpp"
#include "run/output_folder.hpp"
#include "run/prepare_run.hpp"
#include "run/recorder.hpp"
#include "run/state_copy.hpp"
#include "training/collective_errors.hpp"

namespace muster {

/// One rank's run, from reading the data to the last checkpoint. Every function is collective unless it is
/// marked "Rank 0 only".
class Trainer {
 public:
  /// The options and the job must outlive the trainer.
  Trainer(const Options& options, Job& job);
  /// See train() below.
  int train();

 private:
  void prepare();
  /// The same for a process that joins a running job (--join): becomes a rank of it and gets the state.
  void join_run();
  /// Trains to the end. False when the run goes on with other ranks: after the loss of some, or when
  /// processes wanted to join it.
  bool run(Progress& progress, bool after_change);
  /// False when processes want to join after this step.
  bool loop(Progress& progress);
  /// The validation and the checkpoint of this step, if they are due.
  void validate_and_save(Progress& progress);
  /// Begins the step that follows those in flight.
  void begin_step();
  /// Ends the oldest steps until `left` are in flight, or until one that a rank wants to be the last: then it
  /// returns true.
  bool end_steps(Progress& progress, std::size_t left);
  void count_step(const StepResult& result);
  /// Ends the run after the same step on all ranks, of which some may have begun more steps than others.
  void stop(Progress& progress);
  void report_skipped_update(Progress& progress, const StepResult& result);
  bool is_stopped() const { return signal_ != 0 || too_few_ranks_; }
  std::string stop_reason() const;
  /// When a signal arrives during the validation, sets signal_ and reports no loss.
  void validate(Progress& progress);
  /// True when a signal interrupted the validation after the checkpoint's step, so it must be run again.
  bool needs_validation();
  bool is_due(std::int64_t every) const { return is_due(every, state().step); }
  static bool is_due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }
  /// True when step `step` must have ended before the next one begins: for a validation, a checkpoint or the
  /// end.
  bool must_end_before_next(std::int64_t step) const {
    return step == options_.steps || is_due(options_.eval_every, step) ||
           is_due(options_.checkpoint_every, step);
  }
  /// The run of an active rank, from validations that are due to the end. False as loop().
  bool run_to_end(Progress& progress, bool after_change);
  /// After the loss of a rank: continues the job with those that are left and with spares in the place of
  /// the lost ones, and gives them the newest state. Without a loss: the same with the processes that want to
  /// join; collective over the job.
  void change_members(Progress& progress, std::optional<Error> loss);
  /// After a change of the job's members. Collective over the job.
  void use_members();
  /// Ends the steps whose update this rank has made, without the other ranks.
  void end_own_steps(Progress& progress);
  /// Takes the state from the strategy of before the change, which is destroyed. After a loss it is
  /// collective over the ranks that are left.
  StateCopy take_state(Progress& progress, bool after_loss);
  /// Gives the processes that have joined the run's past. Collective over the job.
  void share_past(const MembershipChange& change);
  /// Reports the loss or the growth, and which ranks go on. `kept`: with the state that they had in memory.
  void report_change(Progress& progress, const std::optional<Error>& loss, const MembershipChange& change,
                     double seconds, bool kept);
  /// Builds all that depends on the ranks anew. False when the ranks that are left do not have the whole
  /// state, so that the newest checkpoint was read. Collective over them.
  bool rebuild(StateCopy& copy);
  void save(Progress& progress);
  void finish(Progress& progress);

  // Rank 0 only:
  void record(Progress& progress, const StepResult& result);
  /// Writes what was recorded, and the status.
  void flush();
  /// Keeps an error of `write` in output_error_, and does nothing after one.
  void keep_error(const std::function<void()>& write);
  Summary summary(const Progress& progress, const std::string& ended) const {
    Summary found = recorder_->summary(progress.throughput(), state().step, checkpointer_->good(), ended);
    found.gpu_bytes = parts_.compute->allocated_bytes();
    return found;
  }
  RunStatus status(RunStatus::State state) const;
  bool is_rank0() const { return job_.rank() == 0; }
  Strategy& strategy() { return *parts_.strategy; }
  /// Those that have ended, and those in flight.
  std::int64_t begun_steps() const {
    return state().step + static_cast<std::int64_t>(parts_.strategy->in_flight());
  }
  TrainingState& state() { return parts_.state; }  ///< after the last ended step
  const TrainingState& state() const { return parts_.state; }

  const Options& options_;
  Job& job_;
  ActiveRanks ranks_;
  Communicator world_;  ///< of the active ranks; not used on a spare, as errors_
  CollectiveErrors errors_;
  Schedule schedule_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  OutputFolder output_;
  RunParts parts_;
  std::unique_ptr<Recorder> recorder_;          ///< on rank 0; one that takes over has none before rebuild()
  std::unique_ptr<Checkpointer> checkpointer_;  ///< destroyed before what its thread uses
  /// Rank 0's error of writing metrics or a checkpoint; thrown on all ranks with the next step.
  std::optional<Error> output_error_;
  JoinRequests join_requests_;
  MembershipHistory history_;  ///< for the summary and the status
  std::int64_t validated_step_ = -1;
  int signal_ = 0;
  int exit_code_ = 0;           ///< of a spare
  bool too_few_ranks_ = false;  ///< fewer than --elastic are left
};

/// Runs the training on every rank of the job. Returns the exit code: 0, also when a batch system's signal
/// stopped the run (the status file says so, run_status.hpp), or 128 + SIGINT.
/// @throws CollectiveAbort when all ranks have agreed to end and the reason is printed, muster::Error when a
/// collective operation failed.
int train(const Options& options, Job& job);

}  // namespace muster
