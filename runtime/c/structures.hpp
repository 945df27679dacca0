// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "muster/error.hpp"
#include "muster/version.hpp"

/// The structures of the C interface. A program may know fewer or more members of them than this library.
namespace muster::c {

/// Checks that the caller has set the structure's size.
/// @throws Error(ErrorCode::usage)
template <typename Structure>
void require_size(const Structure& given, const char* function, const char* type) {
  if (given.size >= sizeof given.size) return;
  throw Error(ErrorCode::usage, fmt::format("{}: {}.size is not set to sizeof({})", function, type, type));
}

/// Copies as much of `all` as the caller's structure has room for; its size stays.
template <typename Structure>
void fill(Structure& place, const Structure& all) {
  auto const size = place.size;
  std::memcpy(&place, &all, std::min(size, sizeof all));
  place.size = size;
}

/// The members of the caller's structure that both sides know, and `defaults` for the rest. Bytes beyond them
/// must be zero, since 0 never requests anything in later members: the same rule as Linux's
/// copy_struct_from_user().
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

inline bool parse_flag(std::int32_t value, const char* function, const char* member) {
  if (value == 0 || value == 1) return value == 1;
  throw Error(ErrorCode::usage, fmt::format("{}: {} is {}, not 0 or 1", function, member, value));
}

}  // namespace muster::c
