// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/core_yield.hpp"

#include <sched.h>

#include <chrono>
#include <thread>

namespace muster::detail {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::microseconds sleep_between_polls{100};
// Between ranks that only poll, a yield takes some microseconds. The shortest time slices are of 0.7 ms.
constexpr std::chrono::microseconds long_yield{500};
// As many polls as several waits take. The next yield then finds out whether others still use the core.
constexpr int sleeps_after_long_yield = 100;

}  // namespace

void CoreYield::yield() {
  if (sleeps_left_ > 0) {
    --sleeps_left_;
    return sleep();
  }
  auto const start = steady_clock::now();
  sched_yield();
  if (steady_clock::now() - start > long_yield) sleeps_left_ = sleeps_after_long_yield;
}

void CoreYield::sleep() { std::this_thread::sleep_for(sleep_between_polls); }

}  // namespace muster::detail
