// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "compute/memory.hpp"

namespace muster::compute {
namespace {

constexpr std::size_t cache_line = 64;
/// The size on x86-64, and on AArch64 with 4-KiB pages; elsewhere it is only an alignment.
constexpr std::size_t huge_page = std::size_t{2} << 20;
/// Smaller blocks use ordinary pages: rounding them up to huge pages would waste too much memory.
constexpr std::size_t min_huge_block = 8 * huge_page;

class HostMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    const std::size_t alignment = bytes >= min_huge_block ? huge_page : cache_line;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    // Fails harmlessly on a system without huge pages.
    if (alignment == huge_page) ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    std::memset(memory, 0, bytes);
    return memory;
  }
  void free(void* memory) noexcept override { std::free(memory); }
  bool is_host() const noexcept override { return true; }
  void copy_in(void* to, const void* host, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, host, bytes);
  }
  void copy_out(void* host, const void* from, std::size_t bytes) override { copy_in(host, from, bytes); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace muster::compute
