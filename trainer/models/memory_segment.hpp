// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

/// Memory of one kind that a rank allocates.
struct MemorySegment {
  std::string name;
  std::uint64_t bytes = 0;
  bool is_activation = false;
  bool is_shared = false;     ///< the ranks of a host have it in common
  bool is_offloaded = false;  ///< in the host's memory, of a job on GPUs
};

using MemorySegments = std::vector<MemorySegment>;

inline std::uint64_t total_bytes(const MemorySegments& segments) {
  std::uint64_t total = 0;
  for (const MemorySegment& segment : segments) total += segment.bytes;
  return total;
}

inline std::uint64_t offloaded_bytes(const MemorySegments& segments) {
  std::uint64_t total = 0;
  for (const MemorySegment& segment : segments)
    if (segment.is_offloaded) total += segment.bytes;
  return total;
}

}  // namespace muster
