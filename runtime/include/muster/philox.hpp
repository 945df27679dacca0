// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "muster/export.hpp"

namespace muster {

/// Philox4x32-10: four random words for a counter and a key (Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3", SC 2011). It has no state: one call computes any position of any stream, with the same result
/// on every machine. Thread-safe, as are the next two functions.
MUSTER_EXPORT std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) noexcept;

/// Number `index` of uniform sequence `stream` of the seed, 64 bits.
MUSTER_EXPORT std::uint64_t uniform_bits(std::uint64_t seed, std::uint64_t stream,
                                         std::uint64_t index) noexcept;

/// Number `index` of normal sequence `stream` of the seed, mean 0 and standard deviation 1 (Box-Muller).
MUSTER_EXPORT double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept;

}  // namespace muster
