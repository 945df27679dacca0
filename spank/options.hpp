// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::spank {

/// What the user or the administrator asked Muster to do with a step.
enum class Mode {
  off,        ///< nothing: the step runs as without the plugin
  automatic,  ///< place every task
  report,     ///< place every task and print the placement table
};

/// "auto", "report", "off"; anything else is nullopt.
std::optional<Mode> parse_mode(std::string_view text);

/// The plugin's arguments in plugstack.conf.
struct Settings {
  Mode default_mode = Mode::off;  ///< for steps that say nothing
};

/// Reads plugstack.conf arguments (`default=auto|off`).
/// @throws std::invalid_argument with one line for an unknown argument or value.
Settings parse_settings(const std::vector<std::string_view>& arguments);

/// The mode of a step: what --muster said (nullopt when it was not given), else the administrator's default.
/// `asked` tells the two apart: a wish that cannot be met stops the step, a default that cannot be met does
/// not.
struct Wish {
  Mode mode = Mode::off;
  bool asked = false;
};
Wish resolve(std::optional<Mode> option, const Settings& settings);

/// The mode that an option value stands for as Slurm hands it on: `--muster` without a value travels as an
/// empty string or as "(null)". nullopt when it is not set (null) or not known.
std::optional<Mode> inherited_mode(const char* value);

/// The wish of the sbatch or salloc job around this srun, for use before srun reads its own options.
std::optional<Mode> inherited_mode_from_environment();

/// Whether a command line has the word --muster=off, for the same use. It may belong to the program that srun
/// starts; then the step only stays isolated, which is reported.
bool says_off(const std::vector<std::string>& command_line);

}  // namespace muster::spank
