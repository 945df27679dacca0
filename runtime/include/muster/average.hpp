// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "muster/communicator.hpp"
#include "muster/export.hpp"

namespace muster {

/// A weighted mean in double precision that is still being summed: add this rank's values, then call
/// average_over_ranks(). It is exact for unequal weights: a rank without samples adds nothing.
struct Average {
  double sum = 0;  ///< sum of value * weight
  double weight = 0;

  void add(double value, double its_weight = 1) noexcept {
    sum += value * its_weight;
    weight += its_weight;
  }
  /// Not a number while the weight is 0.
  double value() const noexcept { return sum / weight; }
};

/// Adds sums and weights over all ranks, so that each average is that of all ranks, with the same bits on
/// every rank. One all-reduce for all averages. Collective over `host`, a communicator on host memory.
/// @throws Error(ErrorCode::usage) on "nccl"; the errors of the all-reduce.
MUSTER_EXPORT void average_over_ranks(Communicator& host, std::span<Average> averages);

/// The mean over ranks of `value`, weighted with each rank's `weight` (samples, tokens); not a number when
/// all weights are 0. Collective; throws as average_over_ranks().
MUSTER_EXPORT double weighted_average(Communicator& host, double value, double weight);

}  // namespace muster
