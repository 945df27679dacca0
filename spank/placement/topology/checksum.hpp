// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::placement {

/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/: each byte enters by an exclusive or and an odd factor,
/// so no change of a single byte can go unnoticed. Against accidents and editing, not against malice. Pure.
std::uint64_t checksum(std::string_view text);

/// 16 digits.
std::string hexadecimal(std::uint64_t number);

}  // namespace muster::placement
