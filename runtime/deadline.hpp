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
#include <thread>

namespace muster {

/// A moment after which a wait ends. Counted on the steady clock.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Negative lengths count as zero; lengths over a year as a year, so that no arithmetic overflows.
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
std::string text_of(std::chrono::milliseconds length);

/// Runs a call that has no deadline of its own on a second thread and waits for it. Returns what it returned,
/// or nothing when the deadline passed: the call then goes on in the background, so it must own everything
/// that it touches.
inline std::optional<int> run_bounded(std::function<int()> call, const Deadline& deadline) {
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<int> value;
  };
  auto outcome = std::make_shared<Outcome>();
  std::thread([outcome, call = std::move(call)] {
    int const value = call();
    std::lock_guard lock(outcome->mutex);
    outcome->value = value;
    outcome->changed.notify_all();
  }).detach();
  std::unique_lock lock(outcome->mutex);
  outcome->changed.wait_until(lock, deadline.when(), [&] { return outcome->value.has_value(); });
  return outcome->value;
}

}  // namespace muster
