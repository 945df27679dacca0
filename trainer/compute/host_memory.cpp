// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "compute/huge_pages.hpp"
#include "compute/memory.hpp"

namespace muster::compute {
namespace {

class HostMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override { return allocate_pages(bytes); }
  void free(void* memory) noexcept override { free_pages(memory); }
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
