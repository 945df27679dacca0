// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "communicator/point_to_point.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// Reduce-scatters by messages: every rank sends each other rank that one's share and reduces its own, in
/// pieces, of which the next is on its way meanwhile. Operands go in the order of ranks; 16-bit floats round
/// once.
class PairwiseReduceScatter {
 public:
  PairwiseReduceScatter(PointToPoint& messages, int rank, int ranks);

  /// `count`: elements of a share. `out` may be this rank's share of `in`.
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op);

 private:
  struct UnderWay {
    PointToPoint::Batch batch;
    std::vector<std::byte> received;
  };

  // The rank that is `steps` after this one, around.
  std::size_t after(std::size_t steps) const { return (rank_ + steps) % operands_.size(); }

  PointToPoint& messages_;
  std::size_t rank_;
  std::array<UnderWay, 2> under_way_;
  std::vector<const void*> operands_;  // one a rank
};

}  // namespace muster::detail
