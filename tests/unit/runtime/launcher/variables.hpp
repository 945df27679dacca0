// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "launcher/launcher_detection.hpp"

/// An environment of these variables alone.
inline muster::bootstrap::GetEnv variables(std::map<std::string, std::string> set) {
  return muster::bootstrap::GetEnv(std::move(set));
}
