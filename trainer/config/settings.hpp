// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/options.hpp"

namespace muster {

/// One option, as settings files, variables and --help name it.
struct Setting {
  std::string name;   ///< without leading dashes: "learning-rate"
  std::string group;  ///< as in --help
  std::string value;  ///< parses to the same value; empty: not set
  bool is_switch = false;
};

/// All settings with the values that `options` holds, in the order of --help.
std::vector<Setting> list_settings(const Options& options);

/// The settings of the model and the training that later steps depend on and that have no field of their own
/// in TrainingState, by name.
std::map<std::string, std::string> later_step_settings(const Options& options);

/// The settings as a TOML file that --config reads. A comment after a value names its source.
std::string settings_as_toml(const Options& options);

/// A setting from a settings file or the environment.
struct GivenSetting {
  std::string name;         ///< "learning-rate"
  std::string value;        ///< as on the command line after --learning-rate=
  std::string where;        ///< "run.toml:3" or "MUSTER_TRAIN_LEARNING_RATE"
  bool is_boolean = false;  ///< TOML's true or false, without quotes
};

/// Reads a TOML file of names and values without sections, in the order of its lines.
/// @throws muster::Error: system when the file cannot be read, usage with the line when it is not such a
/// file.
std::vector<GivenSetting> read_settings_file(const std::string& path);

}  // namespace muster
