// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "communicator/host/spin_wait.hpp"
#include "muster/collective_call.hpp"
#include "shared_memory/shared_segment.hpp"

namespace muster::detail {

/// Short collectives of the ranks of one host in shared memory: each rank writes its data into a slot, and
/// the others read them there. A rank waits only for those whose data it needs, so that the root of a
/// broadcast and the other ranks of a reduce do not wait. Every element is reduced by one rank, or by all
/// ranks in the same order, so the results are equal to the bit. Not thread-safe.
///
/// Each call is a round of every rank. A rank has several slots, which it uses in turn. It writes into one
/// again only after every other rank has begun a later round than that of the slot's old data, that is, has
/// read them.
class ShmShortCollectives {
 public:
  /// Bytes of memory for `ranks` ranks.
  static std::size_t bytes_for(int ranks);

  /// `memory`: all zero, shared by the ranks. `yield` and `on_spin` as in SpinWait. `on_mismatch` throws: a
  /// rank makes another call.
  ShmShortCollectives(std::byte* memory, int rank, int ranks, bool yield,
                      std::function<void(unsigned)> on_spin, std::function<void()> on_mismatch);

  /// All ranks that make the same call get the same answer.
  bool is_short(const CollectiveCall& call) const;
  /// Runs a short call. `digest`: of this rank's calls up to this one.
  void run(const CollectiveCall& call, std::uint64_t digest);

 private:
  // A rank's round, its call, and a payload short enough to share its cache line.
  struct alignas(cache_line) Line {
    std::atomic<std::uint64_t> round;
    std::uint64_t digest;
    std::byte payload[48];
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Line) == cache_line);

  // With many slots a root is far ahead before it must wait; where ranks share cores, each wait is a switch
  // of context. All slots of a rank stay in a core's cache.
  static constexpr int slots = 16;
  static constexpr std::size_t slot_bytes = 8u << 10;

  Line& line(int rank, std::uint64_t round) const {
    return lines_[slots * rank + static_cast<int>(round % slots)];
  }
  // Where a rank writes `bytes` bytes in this round.
  std::byte* place(int rank, std::size_t bytes) const;
  void begin_round();
  // Writes this rank's data and lets the other ranks read them. The digest is an argument everywhere: a
  // member would have to pass through memory before another rank could read it.
  void write(const void* data, std::size_t bytes, std::uint64_t digest);
  // Waits for a rank's data and compares the calls.
  const std::byte* read(int rank, std::size_t bytes, std::uint64_t digest);

  void reduce(const CollectiveCall& call, std::byte* out, std::uint64_t digest);
  void broadcast(const CollectiveCall& call, std::uint64_t digest);
  void all_gather(const CollectiveCall& call, std::uint64_t digest);
  void reduce_scatter(const CollectiveCall& call, std::uint64_t digest);
  void all_to_all(const CollectiveCall& call, std::uint64_t digest);
  void barrier(std::uint64_t digest);

  int rank_;
  int ranks_;
  std::size_t reduced_bytes_;  // reductions up to this size, all ranks together, are short
  SpinWait wait_;
  std::function<void()> on_mismatch_;
  Line* lines_;
  std::byte* slots_;
  std::uint64_t round_ = 0;
  std::uint64_t begun_ = 0;  // every other rank has begun this round
  std::vector<const void*> operands_;
};

}  // namespace muster::detail
