// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace muster::spank {

std::optional<Mode> parse_mode(std::string_view text) {
  if (text == "auto") return Mode::automatic;
  if (text == "report") return Mode::report;
  if (text == "off") return Mode::off;
  return std::nullopt;
}

Settings parse_settings(const std::vector<std::string_view>& arguments) {
  constexpr std::string_view key = "default=";
  Settings settings;
  for (std::string_view argument : arguments) {
    if (!argument.starts_with(key))
      throw std::invalid_argument("plugstack.conf: unknown argument '" + std::string(argument) +
                                  "' for spank_muster.so; use default=auto or default=off");
    const std::string_view value = argument.substr(key.size());
    const auto mode = parse_mode(value);
    if (!mode || *mode == Mode::report)
      throw std::invalid_argument("plugstack.conf: default='" + std::string(value) +
                                  "' for spank_muster.so is not known; use default=auto or default=off");
    settings.default_mode = *mode;
  }
  return settings;
}

Wish resolve(std::optional<Mode> option, const Settings& settings) {
  if (option) return {*option, true};
  return {settings.default_mode, false};
}

std::optional<Mode> inherited_mode(const char* value) {
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  if (text.empty() || text == "(null)") return Mode::automatic;
  return parse_mode(text);
}

std::optional<Mode> inherited_mode_from_environment() {
  // salloc hands a plugin's option on by the first name, the batch script's environment has it under the
  // second (Slurm 22.05).
  for (const char* name :
       {"_SLURM_SPANK_OPTION_muster_muster", "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster"})
    if (const auto mode = inherited_mode(std::getenv(name))) return mode;
  return std::nullopt;
}

bool says_off(const std::vector<std::string>& command_line) {
  return std::find(command_line.begin(), command_line.end(), "--muster=off") != command_line.end();
}

}  // namespace muster::spank
