// SPDX-License-Identifier: Apache-2.0
// A replica's parameters and moments between the ranks that keep them and rank 0, which reads and writes
// checkpoints: unsharded ones, that any number of ranks can go on from.
#include <utility>
#include <vector>

#include "files/hash.hpp"
#include "training/replica.hpp"

namespace muster {
namespace {

/// A device's numbers, for the host to read; on the host the numbers themselves. Waits.
class OnHost {
 public:
  OnHost(std::span<const float> there, compute::Memory& memory) : numbers_(there) {
    if (memory.is_host()) return;
    room_.resize(there.size());
    memory.copy_out(room_.data(), there.data(), there.size_bytes());
    numbers_ = room_;
  }
  std::span<const float> numbers() const { return numbers_; }

 private:
  std::vector<float> room_;
  std::span<const float> numbers_;
};

}  // namespace

Share Replica::part_of(int rank) const {
  const std::size_t size = model_->tensors().table().arena_size;
  return sharded() ? optimizer_part(size, rank, world_.size()) : Share{0, size};
}

void Replica::broadcast() {
  world_.broadcast(model_->tensors().parameters(), 0, compute_.stream());
  model_->tensors().round_parameters(compute_);
}

void Replica::spread(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  compute::Memory& memory = compute_.memory();
  if (world_.rank() == 0)
    memory.copy_in(own.parameters.data(), whole.parameters.data(), own.parameters.size_bytes());
  broadcast();
  for (const auto& [from, to] :
       {std::pair{whole.moment1, own.moment1}, std::pair{whole.moment2, own.moment2}}) {
    if (world_.rank() == 0) {
      memory.copy_in(to.data(), from.data(), to.size_bytes());  // rank 0's part is the first
      for (int rank = 1; sharded() && rank < world_.size(); ++rank) {
        const Share part = part_of(rank);
        host_.send(std::span<const float>(from.subspan(part.begin, part.count())), rank);
      }
    } else if (sharded()) {
      std::vector<float> room(memory.is_host() ? 0 : to.size());
      host_.recv(memory.is_host() ? to : std::span<float>(room), 0);
      memory.copy_in(to.data(), room.data(), room.size() * sizeof(float));
    }
    if (!sharded()) world_.broadcast(to, 0, compute_.stream());
  }
}

void Replica::collect(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  compute::Memory& memory = compute_.memory();
  if (world_.rank() == 0)
    memory.copy_out(whole.parameters.data(), own.parameters.data(), own.parameters.size_bytes());
  for (const auto& [from, to] :
       {std::pair{own.moment1, whole.moment1}, std::pair{own.moment2, whole.moment2}}) {
    if (world_.rank() == 0) {
      memory.copy_out(to.data(), from.data(), from.size_bytes());
      for (int rank = 1; sharded() && rank < world_.size(); ++rank) {
        const Share part = part_of(rank);
        host_.recv(to.subspan(part.begin, part.count()), rank);
      }
    } else if (sharded()) {
      host_.send(OnHost(from, memory).numbers(), 0);
    }
  }
}

std::uint64_t Replica::parameter_hash() {
  const OnHost parameters(model_->tensors().parameters(), compute_.memory());
  return hash_bytes(parameters.numbers().data(), parameters.numbers().size_bytes());
}

}  // namespace muster
