// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

/// A 64-bit fingerprint that detects accidental changes, not forgery: FNV-1a (constants of Fowler, Noll and
/// Vo) over little-endian 8-byte words in four interleaved lanes, zero-padded, then over the four lanes and
/// the length. `seed` chains calls.
std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed = 0) noexcept;

}  // namespace muster
