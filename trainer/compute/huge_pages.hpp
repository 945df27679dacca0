// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::compute {

/// Zeroed host memory, at the start of a cache line; blocks of many megabytes in huge pages where the system
/// gives them (transparent_hugepage: always or madvise), which spares matrix products and updates most misses
/// of the address cache. For free_pages(). Null for 0 bytes.
/// @throws std::bad_alloc
void* allocate_pages(std::size_t bytes);
void free_pages(void* memory) noexcept;

}  // namespace muster::compute
