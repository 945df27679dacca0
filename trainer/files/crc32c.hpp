// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

/// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78; RFC 3720, section 12.1).
std::uint32_t crc32c(std::string_view bytes);

/// CRC as TFRecord files store it: rotated right by 15 plus a constant, so that a CRC over data that contains
/// CRCs stays useful (tensorflow/core/lib/hash/crc32c.h, Mask()).
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace muster
