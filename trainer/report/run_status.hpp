// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace muster {

/// How a run stands, for the script around it: one line of JSON in a file.
struct RunStatus {
  enum class State {
    running,     ///< also what a killed run leaves
    unfinished,  ///< stopped by a signal of the batch system, saved: to be started again
    stopped,     ///< stopped by SIGINT, saved
    finished,
    lost,    ///< ended because a rank was lost or missing: starting it again makes sense
    failed,  ///< ended by another error, which was printed
  };
  State state = State::running;
  std::int64_t step = 0, steps = 0;
  std::filesystem::path checkpoint;  ///< the newest good one; empty: none
};

/// {"state":"unfinished","step":40,"steps":600,"checkpoint":"…"}
std::string status_line(const RunStatus& status);
/// Whole or not at all.
/// @throws muster::Error(ErrorCode::system)
void write_status(const std::filesystem::path& path, const RunStatus& status);

}  // namespace muster
