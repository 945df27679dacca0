// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/options.hpp"

namespace muster {

/// One option as files, variables and people know it.
struct Setting {
  std::string name;   ///< without dashes in front: "learning-rate"
  std::string group;  ///< as in --help
  std::string value;  ///< reads back as the same value; empty: not set
  bool is_switch = false;
};

/// All settings with the values that `options` holds, in the order of --help.
std::vector<Setting> settings_of(const Options& options);

/// The settings as a TOML file that --config takes; where a value came from stands behind it as a comment.
std::string settings_as_toml(const Options& options);

}  // namespace muster
