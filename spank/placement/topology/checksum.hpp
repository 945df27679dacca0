// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::placement {

/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/: each byte enters by an exclusive or and an odd factor,
/// so every change of a single byte changes the result. Detects accidents and edits, not attacks. Pure.
std::uint64_t checksum(std::string_view text);

/// The number as 16 hexadecimal digits.
std::string hexadecimal(std::uint64_t number);

}  // namespace muster::placement
