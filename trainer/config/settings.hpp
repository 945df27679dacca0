// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// The settings as a TOML file that --config reads. A comment after a value names its source.
std::string settings_as_toml(const Options& options);

}  // namespace muster
