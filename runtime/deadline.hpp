// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "background_thread.hpp"
#include "clock.hpp"

namespace muster {

/// The time at which a wait ends, on the steady clock.
class Deadline {
 public:
  using Clock = muster::Clock;

  /// Negative lengths count as zero, lengths over a year as a year, so that no arithmetic overflows.
  explicit Deadline(std::chrono::milliseconds from_now)
      : length_(std::clamp<std::chrono::milliseconds>(from_now, std::chrono::milliseconds{0},
                                                      std::chrono::hours{24 * 365})),
        when_(Clock::now() + length_) {}

  bool passed() const { return Clock::now() >= when_; }
  Clock::time_point when() const { return when_; }
  std::chrono::milliseconds length() const { return length_; }
  /// Never negative.
  std::chrono::milliseconds remaining() const {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(when_ - Clock::now());
    return std::max(left, std::chrono::milliseconds{0});
  }

 private:
  std::chrono::milliseconds length_;
  Clock::time_point when_;
};

/// "60 s", "1.5 s" or "250 ms", for messages.
std::string format_duration(std::chrono::milliseconds length);

/// Runs a call that has no deadline of its own in the background. The call continues in the background after
/// its waiter has given up, so it must own everything that it uses.
class BackgroundCall {
 public:
  explicit BackgroundCall(std::function<int()> call) : outcome_(std::make_shared<Outcome>()) {
    run_in_background(
        [outcome = outcome_, call = std::move(call)] {
          int const value = call();
          std::lock_guard const lock(outcome->mutex);
          outcome->value = value;
        },
        [outcome = outcome_] { outcome->changed.notify_all(); });
  }

  /// The call's result. Empty when the deadline passed first or `cancelled`, called about every 10 ms,
  /// returned true.
  std::optional<int> wait(const Deadline& deadline, const std::function<bool()>& cancelled = {}) const {
    auto const done = [this] { return outcome_->value.has_value(); };
    std::unique_lock lock(outcome_->mutex);
    if (!cancelled) {
      outcome_->changed.wait_until(lock, deadline.when(), done);
      return outcome_->value;
    }
    while (!done() && !deadline.passed()) {
      auto const soon = Deadline::Clock::now() + std::chrono::milliseconds{10};
      if (outcome_->changed.wait_until(lock, std::min(soon, deadline.when()), done)) break;
      lock.unlock();
      bool const stop = cancelled();
      lock.lock();
      if (stop) break;
    }
    return outcome_->value;
  }

 private:
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<int> value;
  };
  std::shared_ptr<Outcome> outcome_;
};

/// Runs `call` as a BackgroundCall and waits for it.
inline std::optional<int> run_bounded(std::function<int()> call, const Deadline& deadline,
                                      const std::function<bool()>& cancelled = {}) {
  return BackgroundCall(std::move(call)).wait(deadline, cancelled);
}

/// The result of `read`, or empty when the deadline passes first. As run_bounded().
template <typename Read>
auto read_bounded(Read read, const Deadline& deadline) -> std::optional<decltype(read())> {
  auto const value = std::make_shared<decltype(read())>();
  auto const done = run_bounded(
      [value, read = std::move(read)] {
        *value = read();
        return 0;
      },
      deadline);
  if (!done) return std::nullopt;
  return std::move(*value);
}

}  // namespace muster
