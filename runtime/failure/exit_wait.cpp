// SPDX-License-Identifier: Apache-2.0
#include "failure/exit_wait.hpp"

#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace muster::control {
namespace {

struct ExitState {
  std::mutex mutex;
  Clock::time_point until;
  std::vector<std::shared_ptr<const void>> kept;
};

// Never destroyed: threads may still use it while the process ends.
ExitState& at_exit() {
  static auto& wait = *new ExitState;
  return wait;
}

void run_at_exit() {
  std::unique_lock lock(at_exit().mutex);
  auto const until = at_exit().until;
  lock.unlock();
  std::this_thread::sleep_until(until);
}

}  // namespace

void wait_at_exit(Clock::time_point until) {
  if (simulation) return simulation->wait_at_exit(until);
  [[maybe_unused]] static int const registered = std::atexit(run_at_exit);
  std::lock_guard const lock(at_exit().mutex);
  at_exit().until = until;
}

void keep_until_exit(std::shared_ptr<const void> object) {
  std::lock_guard const lock(at_exit().mutex);
  at_exit().kept.push_back(std::move(object));
}

}  // namespace muster::control
