// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "communicator/point_to_point.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// All-reduces between one rank of each host, by messages. Two leaders swap what they have. A short one of
/// more leaders is doubled: in each step two of them swap. A long one goes in pieces, of which each leader
/// reduces a slice and hands it round; the next piece is on its way meanwhile. Every element is reduced in
/// one order: the results are the same to the bit. 16-bit floats round once.
class InterHostAllReduce {
 public:
  /// `leaders`: their ranks, at least two; this one is leaders[own]. `ranks`: what an average divides by.
  InterHostAllReduce(PointToPoint& messages, std::vector<int> leaders, std::size_t own, int ranks);

  /// The leaders have all ranks' data.
  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op);

  /// What each leader has, `in`, as elements of `wire`: the result's type, or partial_type() of it.
  struct Piece {
    const void* in;
    void* out;
    std::size_t count;
    DataType wire;
    DataType type;
    Reduction op;
  };
  /// Begins a piece, when at most one other is under way. All leaders start and finish in the same order.
  void start(const Piece& piece);
  /// Ends the piece that was started first: all of `out` is there and `in` no longer needed.
  void finish();

 private:
  struct UnderWay {
    Piece piece{};
    PointToPoint::Batch batch;
    std::vector<std::byte> received;
  };
  // The elements of a piece that one leader reduces.
  struct Slice {
    std::size_t begin;
    std::size_t count;
  };

  bool is_swapped(const Piece& piece) const;
  bool is_short(const Piece& piece) const;
  Slice slice(const Piece& piece, std::size_t leader) const;
  // The leader that is `steps` after this one, around.
  std::size_t after(std::size_t steps) const { return (own_ + steps) % leaders_.size(); }
  void reduce_pair(const UnderWay& piece);
  void reduce_slice(UnderWay& piece);
  void double_up(UnderWay& piece);
  void begin_swap(const void* value, std::byte* theirs, std::size_t bytes, std::size_t partner,
                  PointToPoint::Batch& batch);
  void swap(const void* value, std::byte* theirs, std::size_t bytes, std::size_t partner,
            PointToPoint::Batch& batch);

  PointToPoint& messages_;
  std::vector<int> leaders_;
  std::size_t own_;
  int ranks_;
  std::array<UnderWay, 2> under_way_;
  std::size_t started_ = 0;
  std::size_t finished_ = 0;
  std::vector<const void*> operands_;
  std::vector<std::byte> partial_;
};

}  // namespace muster::detail
