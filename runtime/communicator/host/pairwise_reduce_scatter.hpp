// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "communicator/point_to_point.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// Reduce-scatters by messages: every rank sends each other rank that rank's share, and reduces its own share
/// in pieces, while the next piece is in flight. Operands are reduced in rank order; 16-bit floats are
/// rounded once.
class PairwiseReduceScatter {
 public:
  PairwiseReduceScatter(PointToPoint& messages, int rank, int ranks);

  /// `counts`: elements of each rank's share. `out` may be this rank's share of `in`.
  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                      Reduction op);

 private:
  struct InFlight {
    PointToPoint::Batch batch;
    std::vector<std::byte> received;
  };

  // The rank `steps` places after this one, cyclically.
  std::size_t after(std::size_t steps) const { return (rank_ + steps) % operands_.size(); }

  PointToPoint& messages_;
  std::size_t rank_;
  std::array<InFlight, 2> in_flight_;
  std::vector<const void*> operands_;  // by rank
};

}  // namespace muster::detail
