// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace muster {

/// A setting that somebody wrote down outside of the command line.
struct GivenSetting {
  std::string name;   ///< "learning-rate"
  std::string value;  ///< as it would stand behind --learning-rate=
  std::string where;  ///< "run.toml:3" or "MUSTER_TRAIN_LEARNING_RATE"
  bool is_boolean = false;
};

inline constexpr const char* settings_variable_prefix = "MUSTER_TRAIN_";

/// "learning-rate" as MUSTER_TRAIN_LEARNING_RATE, and back.
std::string variable_of(const std::string& setting);
std::string setting_of(const std::string& variable);

/// The settings of a TOML file, in the order of its lines: names and values, without sections.
/// @throws muster::Error: system when it cannot be read, usage for what is no such file, with its line.
std::vector<GivenSetting> read_settings_file(const std::string& path);

/// Those of `environment` ("NAME=value", ends with null) whose names begin with the prefix, whether they are
/// known or not.
std::vector<GivenSetting> read_settings_environment(const char* const* environment);

}  // namespace muster
