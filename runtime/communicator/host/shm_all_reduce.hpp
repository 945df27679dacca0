// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "communicator/host/host_all_reduce.hpp"
#include "communicator/host/shm_short_collectives.hpp"
#include "communicator/host/spin_wait.hpp"
#include "shared_memory/shared_segment.hpp"

namespace muster::detail {

/// All-reduces of the ranks of one host in shared memory, and their short collectives. A long all-reduce
/// passes through the caches piece by piece, where Open MPI's messages pass through main memory several
/// times.
///
/// Each rank has two alternating buffers, so that it can write those of one round while a slower rank still
/// reads those of the round before: a rank begins round n + 2 only after every other rank has begun round
/// n + 1, that is, has ended round n. Every element is reduced by one rank, so the results are equal to the
/// bit.
class ShmAllReduce : public HostAllReduce {
 public:
  /// Bytes of a segment for `ranks` ranks.
  static std::size_t bytes_for(int ranks);

  /// `yield` and `on_spin` as in SpinWait. `on_mismatch` throws: a rank makes another call.
  ShmAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks, bool yield,
               std::function<void(unsigned)> on_spin, std::function<void()> on_mismatch);

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                  std::uint64_t digest) override;
  bool is_short(const CollectiveCall& call) const override { return short_.is_short(call); }
  void run_short(const CollectiveCall& call, std::uint64_t digest) override { short_.run(call, digest); }
  bool reduces_in_shared_memory() const noexcept override { return true; }

 private:
  // A rank's sequence number and its call.
  struct alignas(cache_line) Line {
    std::atomic<std::uint64_t> sequence;
    std::uint64_t digest;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Line) == 64);

  Line& line(int rank) const { return lines_[2 * rank + buffer_]; }
  std::byte* slot(int rank) const;

  void begin_round() { buffer_ ^= 1; }
  // Lets the other ranks read the data that this rank wrote.
  void post() {
    line(rank_).digest = digest_;
    line(rank_).sequence.store(++sequence_, std::memory_order_release);
  }
  // Waits until every other rank has posted as often as this one, and compares their calls.
  void await_all();
  void reduce_chunk(const std::byte* in, std::byte* out, std::size_t count, DataType type, Reduction op);
  // The part of a chunk that a rank reduces ends on a cache line.
  std::size_t slice_begin(std::size_t bytes, int rank) const;
  void copy_to_slot(std::byte* to, const std::byte* from, std::size_t bytes) const;

  std::unique_ptr<SharedSegment> segment_;
  int rank_;
  int ranks_;
  std::size_t cached_bytes_;   // of a rank: up to this size, all ranks' data fit in the last-level cache
  bool bypass_cache_ = false;  // in this call
  SpinWait wait_;
  std::function<void()> on_mismatch_;
  ShmShortCollectives short_;
  Line* lines_;
  std::byte* slots_;
  std::uint64_t sequence_ = 0;
  std::uint64_t digest_ = 0;  // of this rank's call
  int buffer_ = 0;
  std::vector<const void*> operands_;
};

}  // namespace muster::detail
