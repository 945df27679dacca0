// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/staging.hpp"

#include <cstring>

namespace muster::compute::cuda {

// Which waits for the copies, and throws nothing when the GPU has failed.
Staging::~Staging() { gpu_.free(device_); }

void Staging::take_turns(std::size_t places) {
  if (places <= copied_.size()) return;
  while (copied_.size() < places) copied_.push_back(std::make_unique<Mark>(gpu_));
  make_room(room_);
}

void Staging::make_room(std::size_t bytes) {
  for (const auto& copied : copied_) copied->wait();
  gpu_.free(device_);
  device_ = gpu_.allocate(bytes);
  host_ = std::make_unique<Pinned>(gpu_, copied_.size() * bytes);
  room_ = bytes;
}

const void* Staging::send(const void* from, std::size_t bytes, std::size_t most) {
  if (most > room_) make_room(most);
  turn_ = (turn_ + 1) % copied_.size();
  copied_[turn_]->wait();
  void* const place = static_cast<std::byte*>(host_->data()) + turn_ * room_;
  std::memcpy(place, from, bytes);
  gpu_.upload(device_, place, bytes);
  copied_[turn_]->set();
  return device_;
}

}  // namespace muster::compute::cuda
