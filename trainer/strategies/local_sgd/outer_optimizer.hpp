// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "compute/arena.hpp"

namespace muster {

struct OuterOptimizerSettings {
  /// False: the mean of the workers' parameters becomes the parameters (Stich, arXiv 1805.09767).
  bool nesterov = false;
  /// Those of DiLoCo (Douillard et al., arXiv 2311.08105).
  double learning_rate = 0.7, momentum = 0.9;
};

/// DiLoCo's outer optimizer, SGD with Nesterov's momentum as torch.optim.SGD has it. Its gradient D is what
/// the workers moved by since the last synchronization: D = parameters - mean of theirs; v = momentum * v +
/// D; parameters -= learning_rate * (D + momentum * v). Keeps the parameters as of the last synchronization,
/// and v, in host memory.
template <typename Real>
class OuterOptimizer {
 public:
  /// `trained`: the number of elements that are parameters; those behind them are statistics of the batches,
  /// and become their mean. `threads`: that share the work; the bits do not depend on it.
  OuterOptimizer(const OuterOptimizerSettings& settings, std::size_t size, std::size_t trained, int threads);

  /// The parameters from which the workers start.
  void start_from(std::span<const Real> parameters);
  /// Replaces the workers' mean by the new parameters.
  void update(std::span<Real> mean);

  std::span<const Real> parameters() const noexcept { return {parameters_.data(), parameters_.size()}; }
  std::span<Real> momentum() noexcept { return momentum_.span(); }

 private:
  OuterOptimizerSettings settings_;
  std::size_t trained_;
  int threads_;
  compute::Arena<Real> parameters_, momentum_;
};

}  // namespace muster
