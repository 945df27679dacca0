// SPDX-License-Identifier: Apache-2.0
#include "files/hash.hpp"

#include <algorithm>
#include <cstring>

#include "hash/fnv1a.hpp"

namespace muster {

std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed) noexcept {
  constexpr std::size_t lanes = 4, block = lanes * sizeof(std::uint64_t);
  std::uint64_t lane[lanes];
  for (std::size_t j = 0; j < lanes; ++j) lane[j] = fnv1a_add(fnv1a_basis ^ seed, j);
  const auto* from = static_cast<const unsigned char*>(data);
  for (std::size_t at = 0; at < size; at += block) {
    std::uint64_t words[lanes] = {};
    std::memcpy(words, from + at, std::min(block, size - at));
    for (std::size_t j = 0; j < lanes; ++j) {
      lane[j] = fnv1a_add(lane[j], words[j]);
      lane[j] ^= lane[j] >> 32;  // multiplication alone would move differences in high bits out
    }
  }
  std::uint64_t hash = fnv1a_basis;
  for (const std::uint64_t value : {lane[0], lane[1], lane[2], lane[3], static_cast<std::uint64_t>(size)}) {
    hash = fnv1a_add(hash, value);
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace muster
