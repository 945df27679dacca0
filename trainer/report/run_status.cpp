// SPDX-License-Identifier: Apache-2.0
#include "report/run_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "file/regular_file.hpp"
#include "files/output_file.hpp"

namespace muster {
namespace {

const char* to_string(RunStatus::State state) {
  switch (state) {
    case RunStatus::State::running:
      return "running";
    case RunStatus::State::unfinished:
      return "unfinished";
    case RunStatus::State::stopped:
      return "stopped";
    case RunStatus::State::finished:
      return "finished";
    case RunStatus::State::lost:
      return "lost";
    case RunStatus::State::failed:
      return "failed";
  }
  return "";
}

}  // namespace

// Keep this order and no spaces: shell scripts search for "state":"unfinished".
std::string status_line(const RunStatus& status) {
  const nlohmann::json checkpoint =
      status.checkpoint.empty() ? nlohmann::json() : nlohmann::json(status.checkpoint.string());
  return fmt::format(R"({{"state":"{}","step":{},"steps":{},"checkpoint":{}}})"
                     "\n",
                     to_string(status.state), status.step, status.steps,
                     checkpoint.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

bool has_ended_normally(const std::filesystem::path& path) {
  using enum RunStatus::State;
  constexpr std::size_t longest = 64 << 10;
  const auto file = read_regular_file(path.string(), longest);
  if (!file) return false;
  const std::initializer_list<RunStatus::State> states{finished, unfinished, stopped};
  return std::any_of(states.begin(), states.end(), [&](RunStatus::State state) {
    return file->text.starts_with(fmt::format(R"({{"state":"{}")", to_string(state)));
  });
}

void write_status(const std::filesystem::path& path, const RunStatus& status) {
  OutputFile file(path);
  file.write(status_line(status));
  file.commit();
}

}  // namespace muster
