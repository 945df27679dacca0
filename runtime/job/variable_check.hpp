// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/launcher_detection.hpp"

namespace muster::detail {

/// The fault of the first of Muster's variables whose value is not one of its words; nothing if all are
/// unset, empty or right. Without this check a misspelt word would have no effect. Thread-safe if `get_env`
/// is.
std::optional<std::string> describe_wrong_variable(const bootstrap::GetEnv& get_env);

}  // namespace muster::detail
