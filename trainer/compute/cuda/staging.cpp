// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/staging.hpp"

#include <cstring>

namespace muster::compute::cuda {

Staging::~Staging() {
  for (Slot& slot : slots_) {
    if (slot.copied) slot.copied->wait();
  }
  gpu_.free(device_);
}

const void* Staging::send(const void* from, std::size_t bytes) {
  Slot& slot = slots_[turn_ ^= 1];
  if (slot.copied) slot.copied->wait();
  if (bytes > slot.bytes) {
    slot.host = std::make_unique<Pinned>(gpu_, bytes);
    slot.bytes = bytes;
  }
  if (!slot.copied) slot.copied = std::make_unique<Mark>(gpu_);
  if (bytes > device_bytes_) {
    gpu_.free(device_);
    device_ = gpu_.allocate(bytes);
    device_bytes_ = bytes;
  }
  std::memcpy(slot.host->data(), from, bytes);
  gpu_.upload(device_, slot.host->data(), bytes);
  slot.copied->set();
  return device_;
}

}  // namespace muster::compute::cuda
