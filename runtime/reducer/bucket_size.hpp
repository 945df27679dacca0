// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "muster/communicator.hpp"

namespace muster::detail {

/// An all-reduce of n bytes takes latency + n / bandwidth (Hockney, "The communication challenge for MPP",
/// Parallel Computing 20, 1994).
struct LinkSpeed {
  double latency = 0;    ///< seconds
  double bandwidth = 0;  ///< bytes per second
};

/// Fits a line through two measurements, of a small and a large size.
LinkSpeed fit_link_speed(std::size_t small_bytes, double small_seconds, std::size_t large_bytes,
                         double large_seconds);

/// Bytes of a bucket for `total` bytes of gradients. Let the backward pass take T seconds and keep the
/// network busy. The time that it does not hide is the time until the first bucket of s bytes is full,
/// T s / total, plus one latency for each bucket, latency total / s. The sum is least at
/// s = sqrt(latency total² / T). T is not known before training; buckets matter most where T is about as long
/// as the reduction itself, total / bandwidth, and there s = sqrt(latency bandwidth total). The result is at
/// least latency * bandwidth, where half of a bucket's time is latency, and at most `total`.
std::size_t optimal_bucket_bytes(const LinkSpeed& speed, std::size_t total);

/// Measures all-reduces of a small size, and of growing ones up to max_measured_bytes or until one takes 10
/// ms. `all_reduce` (bytes) returns when it is done; `slowest` returns the slowest rank's time, so that all
/// ranks get the same result. Collective. Takes a few milliseconds on a fast network.
LinkSpeed measure_link_speed(const std::function<void(std::size_t)>& all_reduce,
                             const std::function<double(double)>& slowest);

constexpr std::size_t max_measured_bytes = std::size_t{4} << 20;

}  // namespace muster::detail
