// SPDX-License-Identifier: Apache-2.0
// A replica's parameters and moments between the ranks that keep them and rank 0, which reads and writes
// checkpoints: unsharded ones, that any number of ranks can go on from.
#include <algorithm>
#include <utility>

#include "replica.hpp"

namespace muster {
namespace {

void copy_floats(std::span<const float> from, std::span<float> to) {
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

Share Replica::part_of(int rank) const {
  const std::size_t size = model_->tensors().table().arena_size;
  return sharded() ? optimizer_part(size, rank, world_.size()) : Share{0, size};
}

void Replica::broadcast() {
  world_.broadcast(model_->tensors().parameters(), 0);
  model_->tensors().round_parameters(compute_);
}

void Replica::spread(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  if (world_.rank() == 0) copy_floats(whole.parameters, own.parameters);
  broadcast();
  for (const auto& [from, to] :
       {std::pair{whole.moment1, own.moment1}, std::pair{whole.moment2, own.moment2}}) {
    if (world_.rank() == 0) {
      copy_floats(from.first(to.size()), to);  // rank 0's part is the first
      for (int rank = 1; sharded() && rank < world_.size(); ++rank) {
        const Share part = part_of(rank);
        world_.send(std::span<const float>(from.subspan(part.begin, part.count())), rank);
      }
    } else if (sharded()) {
      world_.recv(to, 0);
    }
    if (!sharded()) world_.broadcast(to, 0);
  }
}

void Replica::collect(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  if (world_.rank() == 0) copy_floats(own.parameters, whole.parameters);
  for (const auto& [from, to] :
       {std::pair{own.moment1, whole.moment1}, std::pair{own.moment2, whole.moment2}}) {
    if (world_.rank() == 0) {
      copy_floats(from, to);
      for (int rank = 1; sharded() && rank < world_.size(); ++rank) {
        const Share part = part_of(rank);
        world_.recv(to.subspan(part.begin, part.count()), rank);
      }
    } else if (sharded()) {
      world_.send(std::span<const float>(from), 0);
    }
  }
}

}  // namespace muster
