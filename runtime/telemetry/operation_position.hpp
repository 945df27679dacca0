// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::observe {

/// Where a communicator is.
struct OperationPosition {
  const char* communicator = "";  ///< its name, a kept() text
  std::uint64_t number =
      0;  ///< that the next operation of the whole group will have; 0: they are not counted
};

}  // namespace muster::observe
