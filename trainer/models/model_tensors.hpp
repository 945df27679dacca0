// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/tensor_table.hpp"
#include "muster/sampler.hpp"

namespace muster::models {

/// Share of a batch in the running statistics, as in PyTorch.
inline constexpr double statistic_momentum = 0.1;

/// A model's parameters and gradients, each in one block of memory laid out by the same table. For a model
/// that computes in bfloat16 (Real = compute::Accurate<bfloat16>) also the parameters rounded to bfloat16.
template <typename Real>
class ModelTensors {
 public:
  /// `extra`: number of elements, rounded up to a cache line, before the gradients in memory, so that a few
  /// scalars can be reduced together with them. `rounds`: keep rounded parameters. `parameters`: the memory
  /// of the parameters and of the rounded ones, allocated in this order; null: `memory`.
  /// `rounded_only`: there are rounded parameters and no others.
  explicit ModelTensors(TensorTable table, std::size_t extra = 0, bool rounds = false,
                        compute::Memory& memory = compute::host_memory(),
                        compute::Memory* parameters = nullptr, bool rounded_only = false);

  const TensorTable& table() const noexcept { return table_; }
  std::span<Real> parameters() noexcept { return parameters_.span(); }
  std::span<Real> gradients() noexcept { return gradients_.span().last(table_.arena_size); }
  /// extra_and_gradients() as one.
  std::span<Real> reduced() noexcept { return gradients_.span(); }
  /// Adjacent in memory: the extra elements, then each tensor's gradient in the table's order, with the gap
  /// after it.
  std::vector<std::span<Real>> extra_and_gradients() noexcept;
  Real* parameter(std::size_t tensor) noexcept { return parameters_.data() + table_.tensors[tensor].offset; }
  Real* gradient(std::size_t tensor) noexcept { return gradients().data() + table_.tensors[tensor].offset; }
  /// The rounded parameters as of the last round_parameters() or update; empty unless they are kept.
  std::span<bfloat16> rounded() noexcept { return rounded_.span(); }
  /// The parameter in the type that the model computes in: Real, or bfloat16 for the rounded one.
  template <typename Computed>
  Computed* weight(std::size_t tensor) noexcept {
    if constexpr (std::is_same_v<Computed, Real>)
      return parameter(tensor);
    else
      return rounded_.data() + table_.tensors[tensor].offset;
  }
  /// Bytes of parameters and gradients.
  std::size_t bytes() const noexcept {
    return (parameters_.size() + gradients_.size()) * sizeof(Real) + rounded_.size() * sizeof(bfloat16);
  }

  /// Overwrites the parameters with initial values, which are equal for equal seeds on every machine. Call
  /// round_parameters() afterwards.
  void initialize(std::uint64_t seed);
  /// Overwrites the parameters with those that `read` writes to host memory, laid out by the table. `read`
  /// may throw. Call round_parameters() afterwards.
  void read_parameters(const std::function<void(std::span<Real>)>& read);
  /// Moves every statistic towards its gradient, which must be the sum over all chunks and ranks: statistic =
  /// 0.9 statistic + 0.1 gradient. `part`: of the arena, outside of which nothing moves.
  void update_statistics(compute::UpdateCompute<Real>& compute, const Share& part);
  void update_statistics(compute::UpdateCompute<Real>& compute) {
    update_statistics(compute, {0, table_.arena_size});
  }
  /// Updates the rounded parameters, if they are kept.
  void round_parameters(compute::UpdateCompute<Real>& compute);

 private:
  TensorTable table_;
  compute::Memory& memory_;  ///< of the parameters
  compute::Arena<Real> parameters_, gradients_;
  compute::Arena<bfloat16> rounded_;
};

/// Allocates one arena for blocks of memory that are reserved one by one; each starts on a cache line.
template <typename Real>
class Layout {
 public:
  /// allocate() sets `*pointer`, so `pointer` must stay valid until then.
  void reserve(Real** pointer, std::size_t count) { blocks_.emplace_back(pointer, count); }
  compute::Arena<Real> allocate(compute::Memory& memory) const;

 private:
  std::vector<std::pair<Real**, std::size_t>> blocks_;
};

}  // namespace muster::models
