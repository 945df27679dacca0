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

/// Two timed sizes, a small and a large one, make a line.
LinkSpeed fit(std::size_t small_bytes, double small_seconds, std::size_t large_bytes, double large_seconds);

/// Bytes of a bucket for `total` bytes of gradients. What is not hidden behind a backward pass of T seconds
/// that keeps the network busy is the time until the first bucket is full, T s / total, and one latency for
/// each bucket, latency total / s; their sum is least at s = sqrt(latency total² / T). T is not known before
/// training; buckets matter most where it is about as long as the reduction itself, total / bandwidth, and
/// there s = sqrt(latency bandwidth total). It is never below latency * bandwidth, where half of a bucket's
/// time is latency, nor above `total`.
std::size_t best_bucket_bytes(const LinkSpeed& speed, std::size_t total);

/// Times all-reduces of two sizes with `all_reduce` (bytes; returns when it is done) and makes every rank
/// take the slowest rank's times: collective over `host`, on host memory. A few milliseconds on a fast
/// network.
LinkSpeed measure(const std::function<void(std::size_t)>& all_reduce,
                  const std::function<double(double)>& slowest);

constexpr std::size_t most_measured_bytes = std::size_t{4} << 20;

}  // namespace muster::detail
