// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/plugin_impl.hpp"

namespace muster::spank {

/// Loads spank_muster_step.so, which lies in the folder of this code's own file. Null when it is missing or
/// of another build; `why` is then one line that says what is wrong and what to do.
const StepPart* load_step_part(char* why, std::size_t size) noexcept;

}  // namespace muster::spank
