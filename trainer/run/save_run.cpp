// SPDX-License-Identifier: Apache-2.0
// What a run leaves for a later start: checkpoints and the status.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "run/run.hpp"
#include "text/plural.hpp"

namespace muster {

namespace fs = std::filesystem;

std::string Run::describe_good_checkpoint() const {
  return good_checkpoint_.empty() ? "nothing was saved before"
                                  : fmt::format("{} is good", good_checkpoint_.string());
}

Error Run::with_good_checkpoint(const Error& error) const {
  return {error.code(), fmt::format("{}; stopped after step {}, {}", error.what(), state_.step,
                                    describe_good_checkpoint())};
}

void Run::checkpoint(Progress& progress) {
  progress.pause_timer();
  TrainingTensors copy_buffers;
  const std::uint64_t hash = replica_->parameter_hash();
  const auto differing = collective_errors_.differing_ranks(hash);
  collective_errors_.run_on_rank0([&] {
    if (!differing.empty()) {
      throw TrainingError(fmt::format("parameters differ from rank 0's on rank {} after step {}: not saved",
                                      fmt::join(differing, ", "), state_.step));
    }
    progress.line(
        fmt::format("parameters identical on {} (hash {:016x})", plural(world_.size(), "rank"), hash));
    finish_checkpoint(progress, true);  // only one checkpoint is written at a time
    try {
      flush_records();
    } catch (const Error& error) {
      throw with_good_checkpoint(error);
    }
    copy_buffers = writer_->copy_buffers();
  });
  const auto from = std::chrono::steady_clock::now();
  replica_->gather_state(copy_buffers);
  const double copied = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  collective_errors_.run_on_rank0(
      [&] { writer_->start(state_, copied, make_report_writer(progress, "running")); });
  last_checkpoint_step_ = state_.step;
  progress.resume_timer();
}

void Run::finish_checkpoint(Progress& progress, bool wait) {
  try {
    const auto written = wait ? writer_->wait() : writer_->poll();
    if (!written) return;
    if (written->state.skipped == 0) good_checkpoint_ = written->path;
    progress.line(
        fmt::format("checkpoint {} after step {}: copied in {:.1f} ms, written beside training in {:.1f} ms",
                    written->path.string(), written->state.step, 1e3 * written->copy_seconds,
                    1e3 * written->write_seconds));
  } catch (const Error& error) {
    throw with_good_checkpoint(error);
  }
}

void Run::update_status(RunStatus::State state) {
  write_status(status_path_, {state, state_.step, options_.steps, good_checkpoint_});
}

void Run::write_failure_status(const std::exception& error) noexcept {
  if (!is_rank0()) return;
  if (!lock_ && options_.status.empty()) return;  // status.json may belong to another run
  constexpr int temporary = 75;  // EX_TEMPFAIL: exit code of ErrorCode::lost_rank and ErrorCode::deadline
  try {
    update_status(exit_code_for(error) == temporary ? RunStatus::State::lost : RunStatus::State::failed);
  } catch (const std::exception&) {
    // For example, the disk is full. The error that ended the run was printed. Without a status file a script
    // does not start the run again.
    std::error_code ignored;
    fs::remove(status_path_, ignored);
  }
}

}  // namespace muster
