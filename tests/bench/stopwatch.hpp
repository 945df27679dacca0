// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>

/// For tests/bench/join: started first in main(); prints once, when this rank is ready.
class Stopwatch {
 public:
  /// Prints this rank's time in nanoseconds as one line on stdout.
  void print() const {
    auto const taken = std::chrono::steady_clock::now() - start_;
    std::printf("ready %lld\n", static_cast<long long>(std::chrono::nanoseconds(taken).count()));
    std::fflush(stdout);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};
