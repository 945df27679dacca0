// SPDX-License-Identifier: Apache-2.0
#include "reducer/bucket_size.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace muster::detail {
namespace {

constexpr std::size_t small_bytes = 4096;
// A size that takes so long shows the bandwidth. Larger ones would take seconds on a slow network.
constexpr double enough_seconds = 0.01;

using Clock = std::chrono::steady_clock;

// The fastest of a few runs: disturbances only make a run longer.
double fastest(const std::function<void(std::size_t)>& all_reduce, std::size_t bytes, int times) {
  double best = 1e9;
  for (int i = 0; i <= times; ++i) {  // the first one warms up
    auto const begin = Clock::now();
    all_reduce(bytes);
    std::chrono::duration<double> const took = Clock::now() - begin;
    if (i > 0) best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

LinkSpeed fit_link_speed(std::size_t small, double small_seconds, std::size_t large, double large_seconds) {
  double const slope = (large_seconds - small_seconds) / static_cast<double>(large - small);
  // In a disturbed measurement the large size may be the faster one.
  double const seconds_per_byte = std::max(slope, 1e-13);
  return {std::max(small_seconds - static_cast<double>(small) * seconds_per_byte, 1e-7),
          1 / seconds_per_byte};
}

std::size_t optimal_bucket_bytes(const LinkSpeed& speed, std::size_t total) {
  double const half = speed.latency * speed.bandwidth;
  double const best = std::max(half, std::sqrt(half * static_cast<double>(total)));
  return static_cast<std::size_t>(std::clamp(best, 1.0, std::max(1.0, static_cast<double>(total))));
}

LinkSpeed measure_link_speed(const std::function<void(std::size_t)>& all_reduce,
                             const std::function<double(double)>& slowest) {
  double const small = slowest(fastest(all_reduce, small_bytes, 5));
  std::size_t large = small_bytes;
  double seconds = 0;
  while (large < max_measured_bytes && seconds < enough_seconds) {
    large = std::min(8 * large, max_measured_bytes);
    seconds = slowest(fastest(all_reduce, large, 2));
  }
  return fit_link_speed(small_bytes, small, large, seconds);
}

}  // namespace muster::detail
