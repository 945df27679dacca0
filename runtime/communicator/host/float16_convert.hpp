// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::detail {

/// Arrays of 16-bit floats to and from binary32, with the processor's wide instructions where it has them.
/// The results are those of half_bits.hpp to the bit, but for the payload of a NaN. The arrays do not
/// overlap.
void widen_bfloat16(const std::uint16_t* from, float* to, std::size_t count);
void narrow_bfloat16(const float* from, std::uint16_t* to, std::size_t count);
void widen_half(const std::uint16_t* from, float* to, std::size_t count);
void narrow_half(const float* from, std::uint16_t* to, std::size_t count);

}  // namespace muster::detail
