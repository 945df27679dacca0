// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "muster/types.hpp"

namespace muster::detail {

/// The address of an element.
inline const std::byte* at_element(const void* buffer, std::size_t index, DataType type) {
  return static_cast<const std::byte*>(buffer) + index * size_of(type);
}
inline std::byte* at_element(void* buffer, std::size_t index, DataType type) {
  return static_cast<std::byte*>(buffer) + index * size_of(type);
}

/// to[i] = operands[0][i] op operands[1][i] op …, from left to right, for `count` elements. An average is
/// then divided by `ranks`. 16-bit floats are reduced in binary32 and rounded once at the end. `to` may be
/// one of the operands and otherwise overlaps none.
void reduce_elements(void* to, std::span<const void* const> operands, std::size_t count, DataType type,
                     Reduction op, int ranks);

/// The type of intermediate results: binary32 for 16-bit floats, so that they are rounded once at the end.
DataType partial_type(DataType type);

/// The same with a result of another type: `to_type` is `type`, partial_type(type), or a 16-bit float if
/// `type` is binary32. If the types differ, `to` overlaps no operand.
void reduce_elements(void* to, DataType to_type, std::span<const void* const> operands, std::size_t count,
                     DataType type, Reduction op, int ranks);

}  // namespace muster::detail
