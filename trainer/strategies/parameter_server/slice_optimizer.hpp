// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compute/compute.hpp"
#include "models/tensor_table.hpp"
#include "muster/muster.hpp"
#include "optimizer/optimizer.hpp"

namespace muster {

/// The tensors of a part of the arena, as if the part were an arena.
models::TensorTable slice_table(const models::TensorTable& whole, const Share& part);

/// Numbers that workers push with a gradient.
struct UpdateArguments {
  enum Number { learning_rate, step, share, non_finite, count };
};

/// A server's slice of the parameters and of the optimizer's moments, and how a gradient updates them. Every
/// update is that of data-parallel training on the slice.
class SliceOptimizer {
 public:
  struct Settings {
    OptimizerSettings optimizer;
    /// The gradient is that of a whole step, and is clipped by its norm over all slices. Otherwise it is the
    /// mean gradient of a part of a step, and workers have clipped it.
    bool synchronous = false;
    std::uint64_t tasks_per_step = 1;
  };
  struct Outcome {
    double norm = 0;
    bool finite = true;
  };

  /// `servers`: their communicator, for the norm over all slices; nothing when there is one slice.
  SliceOptimizer(const models::TensorTable& whole, const Share& slice, const Settings& settings,
                 compute::UpdateCompute<float>& compute, std::optional<Communicator> servers);

  /// The parameters, then the optimizer's moments.
  std::vector<std::span<float>> arrays();
  /// Of a push, or in synchronous mode of a step. Communicates in synchronous mode.
  Outcome update(const ParameterUpdate& update);

  static std::uint64_t bytes(const Share& slice, OptimizerKind kind) {
    return (1 + Optimizer<float>::moment_count(kind)) * slice.count() * sizeof(float);
  }

 private:
  double norm(std::span<const float> gradient);
  void move_statistics(std::span<const float> gradient, double momentum);

  Share slice_;
  std::vector<std::size_t> tensor_ends_;  // in the whole arena
  models::TensorTable table_;
  Settings settings_;
  compute::UpdateCompute<float>& compute_;
  std::optional<Communicator> servers_;
  compute::Arena<float> parameters_;
  Optimizer<float> optimizer_;
  std::uint64_t updates_ = 0;  // of the step `last_step_`, when it is not synchronous
  std::int64_t last_step_ = -1;
};

}  // namespace muster
