// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/transfer_memory.hpp"

#include <cstring>

namespace muster::compute::cuda {

void* TransferMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  auto block = std::make_unique<PinnedMemory>(gpu_, bytes);
  void* const memory = block->data();
  std::memset(memory, 0, bytes);
  blocks_.emplace(memory, std::move(block));
  return memory;
}

void TransferMemory::copy_in(void* to, const void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, host, bytes);
}

}  // namespace muster::compute::cuda
