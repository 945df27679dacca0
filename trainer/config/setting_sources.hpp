// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace muster {

/// A setting from a settings file or the environment.
struct GivenSetting {
  std::string name;   ///< "learning-rate"
  std::string value;  ///< as on the command line after --learning-rate=
  std::string where;  ///< "run.toml:3" or "MUSTER_TRAIN_LEARNING_RATE"
  bool is_boolean = false;
};

inline constexpr const char* settings_variable_prefix = "MUSTER_TRAIN_";

/// Converts "learning-rate" to "MUSTER_TRAIN_LEARNING_RATE" and back.
std::string to_variable_name(const std::string& setting);
std::string to_setting_name(const std::string& variable);

/// Reads a TOML file of names and values without sections. Returns its settings in the order of lines.
/// @throws muster::Error: system when the file cannot be read, usage with the line when it is not such a
/// file.
std::vector<GivenSetting> read_settings_file(const std::string& path);

/// The settings in `environment` ("NAME=value", ends with null): all variables with the prefix, whether the
/// setting is known or not.
std::vector<GivenSetting> read_settings_environment(const char* const* environment);

}  // namespace muster
