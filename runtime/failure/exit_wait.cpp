// SPDX-License-Identifier: Apache-2.0
#include "failure/exit_wait.hpp"

#include <unistd.h>

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
  std::vector<std::function<void()>> last;
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
  auto const last = at_exit().last;
  lock.unlock();
  std::this_thread::sleep_until(until);
  for (const auto& call : last) call();
}

// A child process that was forked has none of the threads.
void register_at_exit() {
  static auto const process = ::getpid();
  [[maybe_unused]] static int const registered = std::atexit([] {
    if (::getpid() == process) run_at_exit();
  });
}

}  // namespace

void wait_at_exit(Clock::time_point until) {
  if (simulation) return simulation->wait_at_exit(until);
  register_at_exit();
  std::lock_guard const lock(at_exit().mutex);
  at_exit().until = until;
}

void call_at_exit(std::function<void()> last) {
  register_at_exit();
  std::lock_guard const lock(at_exit().mutex);
  at_exit().last.push_back(std::move(last));
}

void keep_until_exit(std::shared_ptr<const void> object) {
  std::lock_guard const lock(at_exit().mutex);
  at_exit().kept.push_back(std::move(object));
}

}  // namespace muster::control
