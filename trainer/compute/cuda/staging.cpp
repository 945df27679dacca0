// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/staging.hpp"

#include <cstring>

namespace muster::compute::cuda {

// free() waits for the copies, and throws nothing if the GPU has failed.
Staging::~Staging() { gpu_.free(device_); }

void Staging::reserve_buffers(std::size_t buffers) {
  if (buffers <= copy_done_.size()) return;
  while (copy_done_.size() < buffers) copy_done_.push_back(std::make_unique<Event>(gpu_));
  reallocate(capacity_);
}

void Staging::reallocate(std::size_t bytes) {
  gpu_.free(device_);  // waits for the copies
  device_ = gpu_.allocate(bytes);
  host_ = std::make_unique<PinnedMemory>(gpu_, copy_done_.size() * bytes);
  capacity_ = bytes;
}

const void* Staging::send(const void* from, std::size_t bytes, std::size_t most) {
  if (most > capacity_) reallocate(most);
  next_ = (next_ + 1) % copy_done_.size();
  copy_done_[next_]->synchronize();
  void* const buffer = static_cast<std::byte*>(host_->data()) + next_ * capacity_;
  std::memcpy(buffer, from, bytes);
  gpu_.upload(device_, buffer, bytes);
  copy_done_[next_]->record();
  return device_;
}

}  // namespace muster::compute::cuda
