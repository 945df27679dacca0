// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "communicator/host/inter_host_all_reduce.hpp"
#include "communicator/host/shared_segment.hpp"
#include "communicator/host/spin_wait.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// All-reduces over several hosts: the ranks of a host reduce in memory that they share; some of them, one
/// for each lane, exchange a part each with the ranks of the same lane on the other hosts and put the result
/// into that memory. What is short takes the first lane alone. Piece k is reduced on the host while piece k -
/// 1 is exchanged, so buffers take turns: a rank writes for piece k only after it has taken the result of
/// piece k - 2, and so after everybody has read k - 2.
class HierarchicalAllReduce {
 public:
  /// What all hosts do alike, of facts that all of them know.
  struct Shape {
    std::size_t slot;  // bytes that are worked on at once
    int lanes;
    /// For `hosts` of `fewest` to `most` ranks.
    static Shape of(std::size_t hosts, int fewest, int most);
  };

  /// Bytes of a host's segment for `ranks` of that host.
  static std::size_t bytes_for(int ranks, const Shape& shape);

  /// `rank` of `ranks` on this host; those below shape.lanes have a `lane`. `yield` and `patience` as in
  /// TurnWait.
  HierarchicalAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks, const Shape& shape,
                 std::unique_ptr<InterHostAllReduce> lane, bool yield, std::function<void(unsigned)> patience);

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op);

 private:
  struct alignas(cache_line) Counter {
    std::atomic<std::uint64_t> turn;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Counter) == 64);

  // Bytes of a piece.
  struct Part {
    std::size_t begin;
    std::size_t end;
  };

  static Part part(std::size_t bytes, int parts, int index);
  int lanes(std::size_t bytes) const;
  std::size_t buffer() const { return piece_ % 2; }
  std::byte* slot(int rank) const;
  std::byte* partial() const;
  std::byte* result(std::uint64_t piece) const;

  // Others may read what this rank wrote.
  void post() { counters_[rank_].turn.store(++turn_, std::memory_order_release); }
  // Until every rank of the host has posted as often.
  void await_all() const;
  // What this host has of a piece comes to partial(), where the lanes find theirs complete.
  void reduce_here(const std::byte* in, std::size_t count, DataType type, Reduction op);
  // The exchange of this rank's lane, if it has one.
  void start(std::size_t count, DataType type, Reduction op);
  // The result of the first piece that was not taken yet.
  void take(std::byte* out, std::size_t bytes);

  std::unique_ptr<SharedSegment> segment_;
  int rank_;
  int ranks_;
  Shape shape_;
  std::unique_ptr<InterHostAllReduce> lane_;
  SpinWait wait_;
  Counter* counters_;   // one a rank
  Counter* exchanged_;  // the pieces that a lane is done with
  std::byte* buffers_;  // slots, partials, results
  std::uint64_t turn_ = 0;
  std::uint64_t piece_ = 0;
  std::uint64_t taken_ = 0;
  std::vector<const void*> operands_;
};

}  // namespace muster::detail
