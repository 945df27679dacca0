// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

namespace muster {

/// Replaces the machine under the control plane in the tests' simulator (tests/simulation): time, waits,
/// threads, and the process itself. The simulator runs one process at a time; each call concerns that
/// process.
class Simulation {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  virtual ~Simulation() = default;
  virtual time_point now() const = 0;
  /// The next timer of the process expires after `wait`.
  virtual void expect_timer(std::chrono::steady_clock::duration wait) = 0;
  /// Waits until `until`, or until a notify_all() of the process.
  virtual void wait(std::unique_lock<std::mutex>& lock, time_point until) = 0;
  virtual void notify_all() = 0;
  /// Instead of the thread of `owner`: calls `run` whenever the process's control threads may have work,
  /// until it returns false.
  virtual void start_thread(const void* owner, std::function<bool()> run) = 0;
  virtual void join_thread(const void* owner) = 0;
  /// `line` without "muster: "; a warning begins with "warning: ".
  virtual void print_line(const std::string& line) = 0;
  [[noreturn]] virtual void end_process(int exit_code) = 0;
  /// exit() does not end the process before `until`.
  virtual void wait_at_exit(time_point until) = 0;
};

/// Null outside of the simulator.
inline Simulation* simulation = nullptr;

/// The steady clock, or simulated time.
struct Clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() { return simulation ? simulation->now() : std::chrono::steady_clock::now(); }
};

/// std::condition_variable on Clock.
class Condition {
 public:
  void notify_all() {
    if (simulation) return simulation->notify_all();
    condition_.notify_all();
  }
  /// Waits until done() or `until`. Returns done().
  template <typename Done>
  bool wait_until(std::unique_lock<std::mutex>& lock, Clock::time_point until, Done done) {
    if (!simulation) return condition_.wait_until(lock, until, done);
    while (!done()) {
      if (Clock::now() >= until) return false;
      simulation->wait(lock, until);
    }
    return true;
  }
  template <typename Done>
  bool wait_for(std::unique_lock<std::mutex>& lock, Clock::duration length, Done done) {
    return wait_until(lock, Clock::now() + length, done);
  }

 private:
  std::condition_variable condition_;
};

}  // namespace muster
