// SPDX-License-Identifier: Apache-2.0
// The same short work on every node.
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "bench/bandwidth.hpp"
#include "bench/memory.hpp"
#include "doctor/node_pace.hpp"

namespace muster::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

// The first is to warm up: pages are touched, the clock rises.
template <typename Work>
double median_of(Work work) {
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    auto const since = Clock::now();
    work();
    if (i > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - since).count());
  }
  return bench::summary_of(std::move(seconds)).median;
}

}  // namespace

double time_compute() {
  std::array<float, 2048> values{};  // 8 KiB
  volatile float kept = 0;           // or the compiler leaves the work out
  return median_of([&] {
    for (int pass = 0; pass < 4000; ++pass)
      for (float& value : values) value = value * 0.999f + 1.0f;
    kept = std::accumulate(values.begin(), values.end(), 0.0f);
  });
}

double time_copy() {
  // Larger than the last-level cache's share of a core; source and destination are apart.
  std::vector<std::byte> from(copied_bytes, std::byte{1});
  std::vector<std::byte> to(copied_bytes);
  volatile std::byte kept{};
  return median_of([&] {
    std::memcpy(to.data(), from.data(), copied_bytes);
    kept = to[copied_bytes / 2];
  });
}

double time_gpu_copy() {
  std::vector<std::byte> host(copied_bytes, std::byte{1});
  auto const memory = bench::gpu_memory(copied_bytes);
  return median_of([&] {
    memory->write(host.data(), copied_bytes);
    memory->read(host.data(), copied_bytes);
  });
}

}  // namespace muster::cli::doctor
