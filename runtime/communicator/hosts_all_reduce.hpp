// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "communicator/leaders_all_reduce.hpp"
#include "communicator/shared_segment.hpp"
#include "communicator/turn_wait.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// All-reduces over several hosts: the ranks of a host reduce in memory that they share, one of them, the
/// leader, exchanges the host's part with the other hosts' leaders and puts the result into that memory.
/// Piece k is reduced on the host while piece k - 1 is exchanged, so buffers take turns: a rank writes for
/// piece k only after it has taken the result of piece k - 2, and so after everybody has read k - 2.
class HostsAllReduce {
 public:
  /// Bytes of a host's segment for `ranks` of that host.
  static std::size_t bytes_for(int ranks);

  /// `rank` of `ranks` on this host; rank 0 is its leader and alone has `leaders`. `yield` and `patience` as
  /// in TurnWait.
  HostsAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks,
                 std::unique_ptr<LeadersAllReduce> leaders, bool yield,
                 std::function<void(unsigned)> patience);

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op);

 private:
  struct alignas(cache_line) Counter {
    std::atomic<std::uint64_t> turn;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Counter) == 64);

  std::size_t buffer() const { return piece_ % 2; }
  std::byte* slot(int rank) const;
  std::byte* partial() const;
  std::byte* result(std::uint64_t piece) const;

  // Others may read what this rank wrote.
  void post() { counters_[rank_].turn.store(++turn_, std::memory_order_release); }
  // Until every rank of the host has posted as often.
  void await_all() const;
  // This host's part of a piece comes to partial(), where its leader finds it complete after await_all().
  void reduce_here(const std::byte* in, std::size_t count, DataType type, Reduction op);
  // The result of the first piece that was not taken yet.
  void take(std::byte* out, std::size_t bytes);

  std::unique_ptr<SharedSegment> segment_;
  int rank_;
  int ranks_;
  std::unique_ptr<LeadersAllReduce> leaders_;
  TurnWait wait_;
  Counter* counters_;   // one a rank, then that of the exchanged pieces
  std::byte* buffers_;  // slots, partials, results
  std::uint64_t turn_ = 0;
  std::uint64_t piece_ = 0;
  std::uint64_t taken_ = 0;
  std::vector<const void*> operands_;
};

}  // namespace muster::detail
