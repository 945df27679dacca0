// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::detail {

/// memcpy for what another core reads next: past this core's caches where the processor can. A line that
/// another core has read is slow to write in the ordinary way, and slow to read for the other once it was
/// written. `to` is aligned to 64 bytes. Before the others are told, stream_fence().
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);
/// What was streamed is visible to whoever sees a later store of this thread.
void stream_fence();

}  // namespace muster::detail
