// SPDX-License-Identifier: Apache-2.0
// Microbenchmarks: the same short work on every node.
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "bench/bandwidth.hpp"
#include "bench/memory.hpp"
#include "doctor/node_speed.hpp"

namespace muster::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

// The first run warms up: it touches pages and raises the clock frequency.
template <typename Work>
double measure_median(Work work) {
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    auto const since = Clock::now();
    work();
    if (i > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - since).count());
  }
  return bench::summarize(std::move(seconds)).median;
}

}  // namespace

double time_compute() {
  std::array<float, 2048> values{};  // 8 KiB
  volatile float sink = 0;           // keeps the compiler from removing the work
  return measure_median([&] {
    for (int pass = 0; pass < 4000; ++pass)
      for (float& value : values) value = value * 0.999f + 1.0f;
    sink = std::accumulate(values.begin(), values.end(), 0.0f);
  });
}

double time_copy() {
  // Larger than the last-level cache's share of a core; source and destination do not overlap.
  std::vector<std::byte> from(copy_bytes, std::byte{1});
  std::vector<std::byte> to(copy_bytes);
  volatile std::byte sink{};
  return measure_median([&] {
    std::memcpy(to.data(), from.data(), copy_bytes);
    sink = to[copy_bytes / 2];
  });
}

double time_gpu_copy() {
  std::vector<std::byte> host(copy_bytes, std::byte{1});
  auto const memory = bench::gpu_memory(copy_bytes);
  return measure_median([&] {
    memory->write(host.data(), copy_bytes);
    memory->read(host.data(), copy_bytes);
  });
}

}  // namespace muster::cli::doctor
