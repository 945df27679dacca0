// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/plugin_impl.hpp"

namespace muster::spank {

/// Loads spank_muster_step.so from the folder of this code's own file. Null if it is missing or from another
/// build; `why` is then one line with the problem and the remedy.
const PluginHooks* load_plugin_impl(char* why, std::size_t size) noexcept;

}  // namespace muster::spank
