// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace muster::detail {

/// Waits for counters in shared memory that other ranks increase.
class SpinWait {
 public:
  /// `yield`: ranks share cores, so that spinning without yielding the core is useless.
  /// `on_spin` is called repeatedly while this rank waits, with the number of previous calls. An exception
  /// from it ends the wait.
  SpinWait(bool yield, std::function<void(unsigned)> on_spin)
      : spins_(yield ? 1 : max_spins), on_spin_(std::move(on_spin)) {}

  /// Waits until `counter` is at least `at_least`.
  void until(const std::atomic<std::uint64_t>& counter, std::uint64_t at_least) const {
    for (int i = 0; i < spins_; ++i) {
      if (counter.load(std::memory_order_acquire) >= at_least) return;
      relax();
    }
    for (unsigned polls = 0; counter.load(std::memory_order_acquire) < at_least; ++polls) on_spin_(polls);
  }

 private:
  // Polls before the first call of `on_spin`, where a rank has a core of its own: some microseconds.
  static constexpr int max_spins = 100;

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  int spins_;
  std::function<void(unsigned)> on_spin_;
};

}  // namespace muster::detail
