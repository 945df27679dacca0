// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>

#include "clock.hpp"

/// How long asio may sleep before it looks at the timers again. In simulated time it does not sleep.
template <>
struct asio::wait_traits<muster::Clock> {
  static muster::Clock::duration to_wait_duration(const muster::Clock::duration& wait) {
    if (!muster::simulation) return wait;
    muster::simulation->expect_timer(wait);
    return {};
  }
  static muster::Clock::duration to_wait_duration(const muster::Clock::time_point& until) {
    return to_wait_duration(until - muster::Clock::now());
  }
};

namespace muster {

/// asio::steady_timer on Clock.
using Timer = asio::basic_waitable_timer<Clock>;

}  // namespace muster
