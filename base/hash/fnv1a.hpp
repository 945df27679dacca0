// SPDX-License-Identifier: Apache-2.0
// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/: every change of a single byte changes the result.
// Detects accidents and edits, not attacks. Pure.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace muster {

constexpr std::uint64_t fnv1a_basis = 0xcbf29ce484222325;
constexpr std::uint64_t fnv1a_prime = 0x100000001b3;

/// The hash of the words before, `hash`, with one more word; a hash of bytes takes a byte as a word.
constexpr std::uint64_t fnv1a_add(std::uint64_t hash, std::uint64_t word) noexcept {
  return (hash ^ word) * fnv1a_prime;
}

constexpr std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = fnv1a_basis;
  for (const char byte : text) hash = fnv1a_add(hash, static_cast<unsigned char>(byte));
  return hash;
}

/// The number as 16 hexadecimal digits.
inline std::string hexadecimal(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace muster
