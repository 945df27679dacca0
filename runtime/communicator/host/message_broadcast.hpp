// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "communicator/point_to_point.hpp"

namespace muster::detail {

/// Broadcasts by messages: a short buffer through a binomial tree, in the fewest steps; a long one along a
/// chain of all ranks, in pieces, so that every rank sends and receives it once.
class MessageBroadcast {
 public:
  MessageBroadcast(PointToPoint& messages, int rank, int ranks)
      : messages_(messages), rank_(rank), ranks_(ranks) {}

  /// `data` has `bytes` bytes. Returns when this rank has its data and has sent it on.
  void broadcast(void* data, std::size_t bytes, int root);

 private:
  // The places are those after the root, cyclically.
  int place(int root) const { return (rank_ - root + ranks_) % ranks_; }
  int rank_at(int place, int root) const { return (place + root) % ranks_; }
  void along_tree(void* data, std::size_t bytes, int root);
  void along_chain(std::byte* data, std::size_t bytes, int root);

  PointToPoint& messages_;
  int rank_;
  int ranks_;
  PointToPoint::Batch received_[2];
  PointToPoint::Batch sent_;
};

}  // namespace muster::detail
