// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "muster/communicator.hpp"
#include "muster/export.hpp"

namespace muster {

/// A weighted mean in the making, in double: add what this rank has, then average_over_ranks(). Exact shares
/// need no equal weights: a rank that had no samples adds nothing.
struct Average {
  double sum = 0;  ///< of value * weight
  double weight = 0;

  void add(double value, double its_weight = 1) noexcept {
    sum += value * its_weight;
    weight += its_weight;
  }
  /// Not a number while the weight is 0.
  double value() const noexcept { return sum / weight; }
};

/// Adds up sums and weights over all ranks: each average is that of all ranks then, the same bits on every
/// one. One all-reduce for all of them. Collective over `host`, a communicator on host memory.
/// @throws Error(ErrorCode::usage) on "nccl"; what the all-reduce throws.
MUSTER_EXPORT void average_over_ranks(Communicator& host, std::span<Average> averages);

/// The mean over ranks of `value`, weighted with each rank's `weight` (samples, tokens); not a number when
/// all weights are 0. Collective, and throws, as average_over_ranks().
MUSTER_EXPORT double weighted_average(Communicator& host, double value, double weight);

}  // namespace muster
