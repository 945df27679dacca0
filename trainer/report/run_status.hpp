// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster {

/// State of a run, for the script around it: one line of JSON in a file.
struct RunStatus {
  enum class State {
    running,     ///< also after the run was killed
    unfinished,  ///< stopped by the batch system's signal and saved: start it again
    stopped,     ///< stopped by SIGINT and saved
    finished,
    lost,    ///< ended because a rank was lost or missing: starting it again can succeed
    failed,  ///< ended by another error, which was printed
  };
  State state = State::running;
  std::int64_t step = 0, steps = 0;
  std::filesystem::path checkpoint;          ///< newest good checkpoint; empty: none
  std::vector<std::string> lost_hosts = {};  ///< those of the ranks that were lost, one for each
};

/// {"state":"unfinished","step":40,"steps":600,"checkpoint":"…"}, and "lost_hosts":["n1"] if there are any.
std::string status_line(const RunStatus& status);
/// The step after which the run ended, if the file says that it is finished, unfinished or stopped. Nothing
/// without a readable file.
std::optional<std::int64_t> find_last_step(const std::filesystem::path& path);
/// True when the file says that the run is running, or lost, which a rank that is cut off from the others can
/// have written. False without a readable file.
bool is_running(const std::filesystem::path& path);
/// Writes the file atomically.
/// @throws muster::Error(ErrorCode::system)
void write_status(const std::filesystem::path& path, const RunStatus& status);

}  // namespace muster
