// SPDX-License-Identifier: Apache-2.0
#include "report/run_status.hpp"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

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

std::optional<std::int64_t> find_last_step(const std::filesystem::path& path) try {
  using enum RunStatus::State;
  constexpr std::size_t longest = 64 << 10;
  const auto file = read_regular_file(path.string(), longest);
  if (!file) return std::nullopt;
  const auto json = parse_json<nlohmann::json>(file->text);
  const auto state = json.at("state").get<std::string>();
  for (const RunStatus::State ended : {finished, unfinished, stopped})
    if (state == to_string(ended)) return json.at("step").get<std::int64_t>();
  return std::nullopt;
} catch (const std::exception&) {
  return std::nullopt;
}

void write_status(const std::filesystem::path& path, const RunStatus& status) {
  OutputFile file(path);
  file.write(status_line(status));
  file.commit();
}

}  // namespace muster
