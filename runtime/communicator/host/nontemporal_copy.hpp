// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::detail {

/// memcpy for data that another core reads next. It bypasses this core's caches where the processor can: a
/// normal write to a line that another core has read is slow, and so is the other core's next read. `to` is
/// aligned to 64 bytes. Call stream_fence() before signalling the readers.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);
/// Makes the streamed data visible to every thread that sees a later store of this thread.
void stream_fence();

}  // namespace muster::detail
