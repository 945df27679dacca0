// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/checksum.hpp"

#include <cstdio>

namespace muster::placement {

std::uint64_t checksum(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

std::string hexadecimal(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace muster::placement
