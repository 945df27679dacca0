// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/tensor_table.hpp"
#include "muster/sampler.hpp"

namespace muster {

enum class OptimizerKind { adamw, sgd };

struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8;  ///< AdamW's
  double weight_decay = 0.1;
  double clip = 1.0;  ///< largest global gradient norm; 0: no clipping
  OptimizerKind kind = OptimizerKind::adamw;
  double momentum = 0.9;  ///< SGD's
  bool nesterov = false;
};

/// The elements of a parameter arena for which `rank` of `size` keeps the optimizer state when it is sharded:
/// whole cache lines. Works for any number of ranks and any arena size; ranks beyond the number of lines get
/// none.
Share optimizer_part(std::size_t arena_size, int rank, int size);

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101) or SGD with momentum, both with clipping by the global
/// norm, over one parameter arena or a part of it.
template <typename Real>
class Optimizer {
 public:
  /// Of the updated part: AdamW's two, or SGD's momentum and nothing.
  struct Moments {
    std::span<Real> first, second;
  };
  /// `part`: the elements that this object updates and keeps moments for. An element's bits do not depend on
  /// it.
  Optimizer(const models::TensorTable& table, const OptimizerSettings& settings,
            compute::UpdateCompute<Real>& compute, Share part);
  /// With moments in memory that outlives the optimizer.
  Optimizer(const models::TensorTable& table, const OptimizerSettings& settings,
            compute::UpdateCompute<Real>& compute, Share part, const Moments& moments);
  Optimizer(const models::TensorTable& table, const OptimizerSettings& settings,
            compute::UpdateCompute<Real>& compute)
      : Optimizer(table, settings, compute, {0, table.arena_size}) {}

  /// Updates the part's parameters and moments. `norm`: Euclidean norm of the gradients over the whole arena;
  /// 0 when the device clips (UpdateCompute::decide). `step` counts from 0. All spans cover whole arenas.
  /// `rounded`: ModelTensors::rounded(), of which this part is updated too.
  void update(std::span<Real> parameters, std::span<const Real> gradients, double norm, double learning_rate,
              std::int64_t step, std::span<bfloat16> rounded = {});

  const Share& part() const noexcept { return part_; }
  std::span<Real> moment1() noexcept { return moments_.first; }
  std::span<Real> moment2() noexcept { return moments_.second; }
  static std::size_t moment_count(OptimizerKind kind) { return kind == OptimizerKind::adamw ? 2 : 1; }

 private:
  // Calls update(elements of the arena, whether they decay).
  template <typename Update>
  void for_each_tensor(const Update& update);
  void update_adamw(std::span<Real> parameters, std::span<const Real> gradients, double gradient_scale,
                    double learning_rate, std::int64_t step, std::span<bfloat16> rounded);
  void update_sgd(std::span<Real> parameters, std::span<const Real> gradients, double gradient_scale,
                  double learning_rate, std::span<bfloat16> rounded);

  const models::TensorTable& table_;
  OptimizerSettings settings_;
  compute::UpdateCompute<Real>& compute_;
  Share part_;
  compute::Arena<Real> first_, second_;  ///< empty when the moments are the caller's
  Moments moments_;
};

}  // namespace muster
