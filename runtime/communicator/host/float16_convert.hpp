// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::detail {

/// Convert arrays of 16-bit floats to and from binary32, with AVX2 and F16C where the processor has them. The
/// results equal those of float16_bits.hpp to the bit, except for the payload of a NaN. The arrays do not
/// overlap.
void bfloat16_to_float(const std::uint16_t* from, float* to, std::size_t count);
void float_to_bfloat16(const float* from, std::uint16_t* to, std::size_t count);
void half_to_float(const std::uint16_t* from, float* to, std::size_t count);
void float_to_half(const float* from, std::uint16_t* to, std::size_t count);

}  // namespace muster::detail
