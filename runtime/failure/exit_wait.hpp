// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "clock.hpp"

namespace muster::control {

/// From now on exit() does not end this process before `until`. Thread-safe.
void wait_at_exit(Clock::time_point until);
/// exit() calls `last` after that. Thread-safe.
void call_at_exit(std::function<void()> last);
/// Keeps `object` until this process ends. Thread-safe.
void keep_until_exit(std::shared_ptr<const void> object);

}  // namespace muster::control
