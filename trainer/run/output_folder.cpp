// SPDX-License-Identifier: Apache-2.0
#include "run/output_folder.hpp"

#include <fmt/format.h>

#include <chrono>

#include "text/printable.hpp"
#include "training/collective_errors.hpp"

namespace muster {

OutputFolder::OutputFolder(const Options& options)
    : path_(options.output),
      status_path_(options.status.empty() ? path_ / "status.json" : std::filesystem::path(options.status)),
      own_status_path_(!options.status.empty()) {}

void OutputFolder::open() {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) {
    throw Error(ErrorCode::system,
                fmt::format("cannot create the output folder {}: {}", path_.string(), error.message()));
  }
  lock_.emplace(path_);
  if (!lock_->has_flock())
    fmt::print("note: the file system of {} has no flock: the file .lock.held in it keeps other runs away\n",
               printable(path_.string()));
}

void OutputFolder::take_over(std::int64_t step) {
  has_begun_ = true;
  if (is_ended_after(step)) {
    throw Error(ErrorCode::deadline,
                fmt::format("the other ranks went on without this one and ended the run, as {} says",
                            printable(status_path_.string())));
  }
  if (lock_) return;
  try {
    lock_.emplace(path_, std::chrono::milliseconds(0));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) throw;
  }
}

bool OutputFolder::is_ended_after(std::int64_t step) const {
  const auto last = find_last_step(status_path_);
  return last && *last > step;
}

void OutputFolder::write_failure(const std::exception& error, RunStatus status) noexcept {
  if (!lock_ && !own_status_path_) return;
  if (has_begun_ && is_ended_after(status.step)) return;
  constexpr int temporary = 75;  // EX_TEMPFAIL: exit code of ErrorCode::lost_rank and ErrorCode::deadline
  try {
    status.state = exit_code_for(error) == temporary ? RunStatus::State::lost : RunStatus::State::failed;
    muster::write_status(status_path_, status);
  } catch (const std::exception&) {
    // For example, the disk is full. The error that ended the run was printed. Without a status file a script
    // does not start the run again.
    std::error_code ignored;
    std::filesystem::remove(status_path_, ignored);
  }
}

}  // namespace muster
