// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "muster/types.hpp"

namespace muster::detail {

/// All-reduces of the ranks of a communicator on host memory.
class HostAllReduce {
 public:
  virtual ~HostAllReduce() = default;
  /// `in` and `out` have `count` (not 0) elements, and are equal or do not overlap.
  virtual void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op) = 0;
  /// Returns false, at once, if there is no faster barrier than MPI's.
  virtual bool barrier() { return false; }
};

}  // namespace muster::detail
