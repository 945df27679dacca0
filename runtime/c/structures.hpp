// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "muster/error.hpp"
#include "muster/version.hpp"

/// The structures of the C interface, of which a program may know fewer or more members than this library.
namespace muster::c {

/// A structure that is to be filled in says how long it is.
template <typename Structure>
void require_size(const Structure& given, const char* function, const char* type) {
  if (given.size >= sizeof given.size) return;
  throw Error(ErrorCode::usage, fmt::format("{}: {}.size is not set to sizeof({})", function, type, type));
}

/// Copies of `all` what the caller has room for; its size stays.
template <typename Structure>
void fill(Structure& place, const Structure& all) {
  auto const size = place.size;
  std::memcpy(&place, &all, std::min(size, sizeof all));
  place.size = size;
}

/// As much of the caller's structure as both sides know, and `defaults` for the rest. What it has beyond that
/// must be zero, which no later member uses for a wish: the same rule as Linux's copy_struct_from_user().
template <typename Structure>
Structure known_part(const Structure& given, const Structure& defaults, const char* function,
                     const char* type) {
  Structure known = defaults;
  require_size(given, function, type);
  std::memcpy(&known, &given, std::min(given.size, sizeof known));
  auto const* const bytes = reinterpret_cast<const char*>(&given);
  for (std::size_t at = sizeof known; at < given.size; ++at) {
    if (bytes[at] == 0) continue;
    throw Error(ErrorCode::usage,
                fmt::format("{}: {} has options that libmuster {} does not know (size {}, here {})", function,
                            type, muster::version, given.size, sizeof known));
  }
  return known;
}

inline bool truth(std::int32_t value, const char* function, const char* member) {
  if (value == 0 || value == 1) return value == 1;
  throw Error(ErrorCode::usage, fmt::format("{}: {} is {}, not 0 or 1", function, member, value));
}

}  // namespace muster::c
