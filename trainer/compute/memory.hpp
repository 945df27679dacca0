// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::compute {

/// A device's memory, from which arenas are allocated.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Zeroed, at the start of a cache line. Null for 0 bytes.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  /// True when the host can read and write it.
  virtual bool is_host() const noexcept = 0;
  /// Copy from and to host memory after all enqueued work, and wait for the copy.
  virtual void copy_in(void* to, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(void* host, const void* from, std::size_t bytes) = 0;
};

/// Host memory. allocate() throws std::bad_alloc. Blocks of at least 16 MiB use huge pages if
/// transparent_hugepage is always or madvise, which avoids most TLB misses of matrix products and updates.
Memory& host_memory();

}  // namespace muster::compute
