// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::observe {

/// A communicator's position in its sequence of operations.
struct OperationPosition {
  const char* communicator = "";  ///< its name, an interned() text
  std::uint64_t number = 0;       ///< number of the group's next operation; 0: not counted
};

}  // namespace muster::observe
