// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "shared_memory/shared_segment.hpp"

namespace muster::detail {

/// What a host's leader sends to the other ranks of its host: process id, descriptor, device, inode; all zero
/// if it has no memory to share.
using SegmentAddress = std::array<std::int64_t, 4>;

/// False with MUSTER_SHARED_MEMORY=off.
bool shared_memory_enabled();

/// All zero for null.
SegmentAddress make_address(const SharedSegment* segment);

/// Null if the address is all zero, or if this process cannot open the segment.
std::unique_ptr<SharedSegment> open_segment(const SegmentAddress& address, std::size_t bytes);

}  // namespace muster::detail
