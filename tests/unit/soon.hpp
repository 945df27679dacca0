// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

/// What ends at once or at a deadline of some milliseconds ends by then, also where others use the CPUs; what
/// it must not wait for takes longer.
constexpr auto soon = std::chrono::seconds(15);
