// SPDX-License-Identifier: Apache-2.0
#include "report/run_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "file/regular_file.hpp"
#include "files/output_file.hpp"
#include "files/parse_json.hpp"

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

struct StatusFile {
  std::string state;
  std::int64_t step = 0;
};

std::optional<StatusFile> read_status(const std::filesystem::path& path) try {
  constexpr std::size_t longest = 64 << 10;
  const auto file = read_regular_file(path.string(), longest);
  if (!file) return std::nullopt;
  const auto json = parse_json<nlohmann::json>(file->text);
  return StatusFile{json.at("state").get<std::string>(), json.at("step").get<std::int64_t>()};
} catch (const std::exception&) {
  return std::nullopt;
}

bool is_one_of(const std::string& name, std::initializer_list<RunStatus::State> states) {
  return std::any_of(states.begin(), states.end(), [&](auto state) { return name == to_string(state); });
}

}  // namespace

// Keep this order and no spaces: shell scripts search for "state":"unfinished".
std::string status_line(const RunStatus& status) {
  const nlohmann::json checkpoint =
      status.checkpoint.empty() ? nlohmann::json() : nlohmann::json(status.checkpoint.string());
  const auto dump = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string line = fmt::format(R"({{"state":"{}","step":{},"steps":{},"checkpoint":{})",
                                 to_string(status.state), status.step, status.steps, dump(checkpoint));
  if (!status.lost_hosts.empty()) line += ",\"lost_hosts\":" + dump(status.lost_hosts);
  return line + "}\n";
}

std::optional<std::int64_t> find_last_step(const std::filesystem::path& path) {
  using enum RunStatus::State;
  const auto file = read_status(path);
  if (file && is_one_of(file->state, {finished, unfinished, stopped})) return file->step;
  return std::nullopt;
}

bool is_running(const std::filesystem::path& path) {
  const auto file = read_status(path);
  return file && is_one_of(file->state, {RunStatus::State::running, RunStatus::State::lost});
}

void write_status(const std::filesystem::path& path, const RunStatus& status) {
  OutputFile file(path);
  file.write(status_line(status));
  file.commit();
}

}  // namespace muster
