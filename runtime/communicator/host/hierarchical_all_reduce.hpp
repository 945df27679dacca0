// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "communicator/host/host_all_reduce.hpp"
#include "communicator/host/inter_host_all_reduce.hpp"
#include "communicator/host/spin_wait.hpp"
#include "shared_memory/shared_segment.hpp"

namespace muster::detail {

/// All-reduces over several hosts. The ranks of a host reduce their data in shared memory. One rank for each
/// channel then exchanges a part of the host's result with the ranks of the same channel on the other hosts,
/// and writes the final result into the shared memory. Short buffers use the first channel only. Piece k is
/// reduced on the host while piece k - 1 is exchanged, with two alternating buffers: a rank writes piece k
/// only after it has copied the result of piece k - 2, that is, after all ranks have read piece k - 2.
class HierarchicalAllReduce : public HostAllReduce {
 public:
  /// Sizes that must be equal on all hosts, computed from facts that all of them know.
  struct Shape {
    std::size_t slot;  // bytes of a piece
    int channels;
    /// For `hosts` hosts of `min_ranks` to `max_ranks` ranks each.
    static Shape choose(std::size_t hosts, int min_ranks, int max_ranks);
  };

  /// Bytes of the segment of a host with `ranks` ranks.
  static std::size_t bytes_for(int ranks, const Shape& shape);

  /// `rank` of `ranks` on this host; ranks below shape.channels have a `channel`. `yield`, `on_spin` and
  /// `on_mismatch` as in ShmAllReduce.
  HierarchicalAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks, const Shape& shape,
                        std::unique_ptr<InterHostAllReduce> channel, bool yield,
                        std::function<void(unsigned)> on_spin, std::function<void()> on_mismatch);

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                  std::uint64_t digest) override;

 private:
  struct alignas(cache_line) Counter {
    std::atomic<std::uint64_t> sequence;
    std::uint64_t digest[2];  // of the rank's calls, by buffer()
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Counter) == 64);

  // A range of bytes of a piece.
  struct Part {
    std::size_t begin;
    std::size_t end;
  };

  static Part part(std::size_t bytes, int parts, int index);
  int channels(std::size_t bytes) const;
  std::size_t buffer() const { return piece_ % 2; }
  std::byte* slot(int rank) const;
  std::byte* partial() const;
  std::byte* result(std::uint64_t piece) const;

  // Lets the other ranks read the data that this rank wrote.
  void post() {
    counters_[rank_].digest[buffer()] = digest_;
    counters_[rank_].sequence.store(++sequence_, std::memory_order_release);
  }
  // Waits until every rank of the host has posted as often as this one, and compares their calls.
  void await_all() const;
  // Reduces this host's data of a piece into partial(); when it returns, this rank's channel's part is
  // complete.
  void reduce_on_host(const std::byte* in, std::size_t count, DataType type, Reduction op);
  // Starts the exchange on this rank's channel, if it has one.
  void start_exchange(std::size_t count, DataType type, Reduction op);
  // Waits for the result of the oldest piece that was not copied yet, and copies it.
  void copy_result(std::byte* out, std::size_t bytes);

  std::unique_ptr<SharedSegment> segment_;
  int rank_;
  int ranks_;
  Shape shape_;
  std::unique_ptr<InterHostAllReduce> channel_;
  SpinWait wait_;
  std::function<void()> on_mismatch_;
  Counter* counters_;   // one for each rank
  Counter* exchanged_;  // by channel: how many pieces it has exchanged
  std::byte* buffers_;  // slots, partials, results
  std::uint64_t sequence_ = 0;
  std::uint64_t digest_ = 0;  // of this rank's call
  std::uint64_t piece_ = 0;
  std::uint64_t copied_ = 0;
  std::vector<const void*> operands_;
};

}  // namespace muster::detail
