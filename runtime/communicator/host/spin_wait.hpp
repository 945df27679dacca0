// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace muster::detail {

/// Waits for counters in shared memory that other ranks raise.
class SpinWait {
 public:
  /// `yield`: ranks share cores, looking without giving the core away is in vain.
  /// `patience` is called again and again while this rank waits for another, with the number of calls before;
  /// what it throws ends the wait.
  SpinWait(bool yield, std::function<void(unsigned)> patience)
      : spins_(yield ? 1 : most_spins), patience_(std::move(patience)) {}

  /// Until `turn` is at least `least`.
  void until(const std::atomic<std::uint64_t>& turn, std::uint64_t least) const {
    for (int i = 0; i < spins_; ++i) {
      if (turn.load(std::memory_order_acquire) >= least) return;
      relax();
    }
    for (unsigned looks = 0; turn.load(std::memory_order_acquire) < least; ++looks) patience_(looks);
  }

 private:
  // Looks before `patience` is asked, where a rank has its core for itself: some microseconds.
  static constexpr int most_spins = 100;

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  int spins_;
  std::function<void(unsigned)> patience_;
};

}  // namespace muster::detail
