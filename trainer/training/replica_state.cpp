// SPDX-License-Identifier: Apache-2.0
// Transfer of a replica's parameters and moments between the ranks that keep them and rank 0, which reads and
// writes checkpoints. Checkpoints are unsharded, so that any number of ranks can resume.
#include <utility>
#include <vector>

#include "files/hash.hpp"
#include "training/replica.hpp"

namespace muster {
namespace {

/// A host copy of a device's values; for host memory the values themselves. The constructor waits for the
/// copy.
class HostCopy {
 public:
  HostCopy(std::span<const float> device_values, compute::Memory& memory) : values_(device_values) {
    if (memory.is_host()) return;
    copy_.resize(device_values.size());
    memory.copy_out(copy_.data(), device_values.data(), device_values.size_bytes());
    values_ = copy_;
  }
  std::span<const float> values() const { return values_; }

 private:
  std::vector<float> copy_;
  std::span<const float> values_;
};

}  // namespace

Share Replica::rank_part(int rank) const {
  const std::size_t size = model_->tensors().table().arena_size;
  return sharded() ? optimizer_part(size, rank, world_.size()) : Share{0, size};
}

void Replica::broadcast() {
  world_.broadcast(model_->tensors().parameters(), 0, compute_.stream());
  model_->tensors().round_parameters(compute_);
}

void Replica::scatter_state(const TrainingTensors& whole) {
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
        const Share part = rank_part(rank);
        host_.send(std::span<const float>(from.subspan(part.begin, part.count())), rank);
      }
    } else if (sharded()) {
      std::vector<float> received(memory.is_host() ? 0 : to.size());
      host_.recv(memory.is_host() ? to : std::span<float>(received), 0);
      memory.copy_in(to.data(), received.data(), received.size() * sizeof(float));
    }
    if (!sharded()) world_.broadcast(to, 0, compute_.stream());
  }
}

void Replica::gather_state(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  compute::Memory& memory = compute_.memory();
  if (world_.rank() == 0)
    memory.copy_out(whole.parameters.data(), own.parameters.data(), own.parameters.size_bytes());
  for (const auto& [from, to] :
       {std::pair{own.moment1, whole.moment1}, std::pair{own.moment2, whole.moment2}}) {
    if (world_.rank() == 0) {
      memory.copy_out(to.data(), from.data(), from.size_bytes());
      for (int rank = 1; sharded() && rank < world_.size(); ++rank) {
        const Share part = rank_part(rank);
        host_.recv(to.subspan(part.begin, part.count()), rank);
      }
    } else if (sharded()) {
      host_.send(HostCopy(from, memory).values(), 0);
    }
  }
}

std::uint64_t Replica::parameter_hash() {
  const HostCopy parameters(model_->tensors().parameters(), compute_.memory());
  return hash_bytes(parameters.values().data(), parameters.values().size_bytes());
}

}  // namespace muster
