// SPDX-License-Identifier: Apache-2.0
// What of a run outlives it: checkpoints and the status.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "run/run.hpp"
#include "text/plural.hpp"

namespace muster {

namespace fs = std::filesystem;

std::string Run::name_good_checkpoint() const {
  return good_checkpoint_.empty() ? "nothing was saved before"
                                  : fmt::format("{} is good", good_checkpoint_.string());
}

Error Run::with_good_checkpoint(const Error& error) const {
  return {error.code(),
          fmt::format("{}; stopped after step {}, {}", error.what(), state_.step, name_good_checkpoint())};
}

void Run::checkpoint(Progress& progress) {
  progress.pause();
  TrainingTensors room;
  const std::uint64_t hash = replica_->parameter_hash();
  const auto differing = agreement_.differing_ranks(hash);
  agreement_.on_first_rank([&] {
    if (!differing.empty()) {
      throw TrainingFailure(fmt::format("parameters differ from rank 0's on rank {} after step {}: not saved",
                                        fmt::join(differing, ", "), state_.step));
    }
    progress.line(
        fmt::format("parameters identical on {} (hash {:016x})", plural(world_.size(), "rank"), hash));
    settle(progress, true);  // one at a time
    try {
      flush_records();
    } catch (const Error& error) {
      throw with_good_checkpoint(error);
    }
    room = writer_->room();
  });
  const auto from = std::chrono::steady_clock::now();
  replica_->collect(room);
  const double copied = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  agreement_.on_first_rank([&] { writer_->start(state_, copied, pictures(progress, "running")); });
  asked_step_ = state_.step;
  progress.go_on();
}

void Run::settle(Progress& progress, bool wait) {
  try {
    const auto written = wait ? writer_->wait() : writer_->finished();
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

void Run::tell_status(RunStatus::State state) {
  write_status(status_path_, {state, state_.step, options_.steps, good_checkpoint_});
}

void Run::tell_failure(const std::exception& error) noexcept {
  if (!first()) return;
  if (!lock_ && options_.status.empty()) return;  // the folder's status may be another run's
  constexpr int temporary = 75;  // EX_TEMPFAIL, of ErrorCode::lost_rank and ErrorCode::deadline
  try {
    tell_status(exit_code_of(error) == temporary ? RunStatus::State::lost : RunStatus::State::failed);
  } catch (const std::exception&) {
    // A full disk, for instance. The reason for the end was said; a script that finds no status does not
    // start the run again.
    std::error_code ignored;
    fs::remove(status_path_, ignored);
  }
}

}  // namespace muster
