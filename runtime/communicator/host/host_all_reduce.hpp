// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/types.hpp"

namespace muster::detail {

/// All-reduces of the ranks of a communicator on host memory.
class HostAllReduce {
 public:
  virtual ~HostAllReduce() = default;
  /// `in` and `out` have `count` (not 0) elements, and are equal or do not overlap. `digest`: of the call.
  /// @throws Error(ErrorCode::usage) when a rank of this host makes another call.
  virtual void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                          std::uint64_t digest) = 0;
  /// Returns false, at once, if there is no faster barrier than MPI's.
  virtual bool barrier(std::uint64_t /*digest*/) { return false; }
};

}  // namespace muster::detail
