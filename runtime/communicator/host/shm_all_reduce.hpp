// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "communicator/host/shared_segment.hpp"
#include "communicator/host/spin_wait.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// All-reduces and barriers of the ranks of one host through memory that they share. A short one takes one
/// look at a cache line of each other rank instead of a message's way through MPI; a long one goes through
/// the caches piece by piece, where Open MPI's messages go through the main memory several times.
///
/// Each rank has two buffers, which take turns, so that one round's buffers can be written while a slower
/// rank still reads the last round's: a rank begins round n + 2 only after every other has begun round n + 1
/// and so has ended round n. Every element is reduced by one rank, or by every rank in the same order: the
/// results are the same to the bit.
class ShmAllReduce {
 public:
  /// Bytes of a segment for `ranks`.
  static std::size_t bytes_for(int ranks);

  /// `yield` and `patience` as in SpinWait.
  ShmAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks, bool yield,
                  std::function<void(unsigned)> patience);

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op);
  void barrier();

 private:
  // A rank's place in a round and a payload short enough to come with it in one cache line.
  struct alignas(cache_line) Line {
    std::atomic<std::uint64_t> turn;
    std::byte payload[56];
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Line) == 64);

  Line& line(int rank) const { return lines_[2 * rank + buffer_]; }
  std::byte* slot(int rank) const;

  void begin_round() { buffer_ ^= 1; }
  // Others may read what this rank wrote.
  void post() { line(rank_).turn.store(++turn_, std::memory_order_release); }
  // Until every other rank has posted as often.
  void await_all();
  void reduce_short(const void* in, void* out, std::size_t count, DataType type, Reduction op);
  void reduce_chunk(const std::byte* in, std::byte* out, std::size_t count, DataType type, Reduction op);

  std::unique_ptr<SharedSegment> segment_;
  int rank_;
  int ranks_;
  std::size_t short_bytes_;
  SpinWait wait_;
  Line* lines_;
  std::byte* slots_;
  std::uint64_t turn_ = 0;
  int buffer_ = 0;
  std::vector<const void*> operands_;
};

}  // namespace muster::detail
