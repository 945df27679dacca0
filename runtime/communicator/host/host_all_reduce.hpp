// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/collective_call.hpp"

namespace muster::detail {

/// All-reduces and barriers of the ranks of a communicator on host memory, and any short call where all ranks
/// share memory.
class HostAllReduce {
 public:
  virtual ~HostAllReduce() = default;
  /// `in` and `out` have `count` (not 0) elements, and are equal or do not overlap. Where
  /// reduces_in_shared_memory(), `out` may be null: this rank does not want the result. `digest`: of this
  /// rank's calls up to this one.
  /// @throws Error(ErrorCode::usage) when a rank of this host makes another call.
  virtual void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                          std::uint64_t digest) = 0;
  /// Whether run_short() runs this call: the same on all ranks that make it.
  virtual bool is_short(const CollectiveCall&) const { return false; }
  virtual void run_short(const CollectiveCall& call, std::uint64_t) { throw_not_run(call.kind); }
  /// See CommunicatorBackend::reduces_in_shared_memory().
  virtual bool reduces_in_shared_memory() const noexcept { return false; }
  /// Returns when every rank has called it.
  virtual void barrier(std::uint64_t digest) {
    std::int8_t nothing = 0;
    all_reduce(&nothing, &nothing, 1, DataType::int8, Reduction::max, digest);
  }
};

}  // namespace muster::detail
