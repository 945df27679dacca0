// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>

#include "compute/cuda/gpu.hpp"

namespace muster::compute::cuda {

/// PinnedMemory for arenas, which the host computes with. The GPU outlives it.
/// @throws Error(ErrorCode::device) when the host has not enough memory to pin.
class TransferMemory final : public Memory {
 public:
  explicit TransferMemory(Gpu& gpu) : gpu_(gpu) {}

  void* allocate(std::size_t bytes) override;
  void free(void* memory) noexcept override { blocks_.erase(memory); }
  bool is_host() const noexcept override { return true; }
  void copy_in(void* to, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* from, std::size_t bytes) override { copy_in(host, from, bytes); }

 private:
  Gpu& gpu_;
  std::map<void*, std::unique_ptr<PinnedMemory>> blocks_;
};

}  // namespace muster::compute::cuda
