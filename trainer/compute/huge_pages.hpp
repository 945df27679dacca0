// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::compute {

/// Zeroed host memory, aligned to a cache line; free it with free_pages(). Blocks of at least 16 MiB use huge
/// pages if transparent_hugepage is always or madvise, which avoids most TLB misses of matrix products and
/// updates. Null for 0 bytes.
/// @throws std::bad_alloc
void* allocate_pages(std::size_t bytes);
void free_pages(void* memory) noexcept;

}  // namespace muster::compute
