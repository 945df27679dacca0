// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/model_tensors.hpp"
#include "muster/sampler.hpp"
#include "optimizer/optimizer.hpp"

namespace muster {

/// The rank of whose part each rank keeps a copy, by rank: each rank is copied once, and on another host
/// unless more than half of the ranks are on one. With equally many ranks on every host, the copy is on the
/// next host, at the same place in it. hosts[r]: number of rank r's host. At least two ranks.
std::vector<int> copied_ranks(std::span<const int> hosts);

/// A copy of another rank's part of sharded optimizer state. Nothing is sent for it: each rank has all
/// reduced gradients, so the copy's rank makes the other's update, too, with the same bits and in the same
/// step. Not thread-safe.
class PartCopy {
 public:
  /// The table and the compute must outlive the copy. `part`: of the arena.
  PartCopy(const models::TensorTable& table, const OptimizerSettings& settings,
           compute::UpdateCompute<float>& compute, Share part);

  const Share& part() const noexcept { return optimizer_.part(); }
  std::size_t bytes() noexcept;
  /// Of the part; no parameters.
  TrainingTensors moments() noexcept { return {{}, optimizer_.moment1(), optimizer_.moment2(), {}}; }
  /// Optimizer::update() and ModelTensors::update_statistics() of the part.
  void update(models::ModelTensors<float>& tensors, double norm, double learning_rate, std::int64_t step);
  /// Call this when the parameters were changed otherwise. `all`: of the whole arena.
  void keep_parameters(std::span<float> all);
  /// Copies the part's parameters and moments to their places in `whole`. `all`: as above.
  void copy_out(std::span<float> all, const TrainingTensors& whole);

 private:
  compute::UpdateCompute<float>& compute_;
  Optimizer<float> optimizer_;
  /// On a device: an operation of NCCL that is aborted may write anything to its buffers, and the ranks
  /// exchange parts in those of the parameters. On the host it writes the right values or none: empty.
  compute::Arena<float> parameters_;
};

}  // namespace muster
