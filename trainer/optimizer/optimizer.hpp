// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/tensor_table.hpp"
#include "muster/sampler.hpp"

namespace muster {

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  ///< largest global gradient norm; 0: no clipping
};

/// The elements of a parameter arena for which `rank` of `size` keeps the optimizer state when it is sharded:
/// whole cache lines. Works for any number of ranks and any arena size; ranks beyond the number of lines get
/// none.
Share optimizer_part(std::size_t arena_size, int rank, int size);

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101) with clipping by the global norm, over one parameter
/// arena or a part of it.
template <typename Real>
class Adamw {
 public:
  /// `part`: the elements that this object updates and keeps moments for. An element's bits do not depend on
  /// it.
  Adamw(const models::TensorTable& table, const AdamwSettings& settings,
        compute::UpdateCompute<Real>& compute, Share part);
  Adamw(const models::TensorTable& table, const AdamwSettings& settings,
        compute::UpdateCompute<Real>& compute)
      : Adamw(table, settings, compute, {0, table.arena_size}) {}

  /// Updates the part's parameters and moments. `norm`: Euclidean norm of the gradients over the whole arena;
  /// 0 when the device clips (UpdateCompute::decide). `step` counts from 0. All spans cover whole arenas.
  /// `rounded`: ModelTensors::rounded(), of which this part is updated too.
  void update(std::span<Real> parameters, std::span<const Real> gradients, double norm, double learning_rate,
              std::int64_t step, std::span<bfloat16> rounded = {});

  const Share& part() const noexcept { return part_; }
  /// Moments of the part.
  std::span<Real> moment1() noexcept { return moment1_.span(); }
  std::span<Real> moment2() noexcept { return moment2_.span(); }

 private:
  const models::TensorTable& table_;
  AdamwSettings settings_;
  compute::UpdateCompute<Real>& compute_;
  Share part_;
  compute::Arena<Real> moment1_, moment2_;
};

}  // namespace muster
