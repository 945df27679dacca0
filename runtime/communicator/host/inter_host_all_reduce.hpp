// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "communicator/host/host_all_reduce.hpp"
#include "communicator/point_to_point.hpp"

namespace muster::detail {

/// All-reduces between one rank of each host (its leader), by messages. Two leaders swap their data. More
/// leaders use recursive doubling for a short buffer; a long one they cut into pieces, of which each leader
/// reduces a slice and sends the result to the others, while the next piece is in flight. Every element is
/// reduced in the same order on all leaders, so the results are equal to the bit. 16-bit floats are rounded
/// once.
class InterHostAllReduce : public HostAllReduce {
 public:
  /// `leaders`: their ranks, at least two; this one is leaders[own]. `ranks`: the divisor of an average.
  InterHostAllReduce(PointToPoint& messages, std::vector<int> leaders, std::size_t own, int ranks);

  /// The leaders' data already covers all ranks. Does not compare the calls.
  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                  std::uint64_t digest) override;

  /// `in`: this leader's data, as elements of `wire`, which is the result's type or partial_type() of it.
  struct Piece {
    const void* in;
    void* out;
    std::size_t count;
    DataType wire;
    DataType type;
    Reduction op;
  };
  /// Starts a piece; at most one other may be in flight. All leaders start and finish in the same order.
  void start(const Piece& piece);
  /// Completes the oldest piece: `out` is then complete, and `in` no longer needed.
  void finish();

 private:
  struct InFlight {
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
  bool is_unsplit(const Piece& piece) const;
  Slice slice(const Piece& piece, std::size_t leader) const;
  // The leader `steps` places after this one, cyclically.
  std::size_t after(std::size_t steps) const { return (own_ + steps) % leaders_.size(); }
  void reduce_pair(const InFlight& piece);
  void reduce_slice(InFlight& piece);
  void recursive_doubling(InFlight& piece);
  void begin_swap(const void* value, std::byte* theirs, std::size_t bytes, std::size_t partner,
                  PointToPoint::Batch& batch);
  void swap(const void* value, std::byte* theirs, std::size_t bytes, std::size_t partner,
            PointToPoint::Batch& batch);

  PointToPoint& messages_;
  std::vector<int> leaders_;
  std::size_t own_;
  int ranks_;
  std::array<InFlight, 2> in_flight_;
  std::size_t started_ = 0;
  std::size_t finished_ = 0;
  std::vector<const void*> operands_;
  std::vector<std::byte> partial_;
};

}  // namespace muster::detail
