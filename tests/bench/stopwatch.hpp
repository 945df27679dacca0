// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>

/// For tests/bench/join: begun as the first thing in main(), said once, when this rank is ready.
class Stopwatch {
 public:
  /// One line on standard output: this rank's time in nanoseconds.
  void say() const {
    auto const taken = std::chrono::steady_clock::now() - begun_;
    std::printf("ready %lld\n", static_cast<long long>(std::chrono::nanoseconds(taken).count()));
    std::fflush(stdout);
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};
