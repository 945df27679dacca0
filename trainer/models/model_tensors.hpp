// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/tensor_table.hpp"

namespace muster::models {

/// Lays out one tensor behind the other.
class TableBuilder {
 public:
  void add(std::string name, std::vector<std::int64_t> shape, bool decay, double deviation, double value = 0,
           Distribution distribution = Distribution::normal);
  /// Widens the gap behind the last tensor to so many elements as it lacks of `count`.
  void leave_room(std::size_t count);
  TensorTable take() { return std::move(table_); }

 private:
  TensorTable table_;
};

/// A model's parameters and gradients, each in one block of memory laid out by the same table; for a model
/// that computes in bfloat16, with Real = compute::Accurate<bfloat16>, also the rounded parameters.
template <typename Real>
class ModelTensors {
 public:
  /// `extra` more elements, rounded up to a cache line, stand before the gradients in memory, so that a few
  /// scalars can travel with them. `rounds`: there are rounded parameters.
  explicit ModelTensors(TensorTable table, std::size_t extra = 0, bool rounds = false,
                        compute::Memory& memory = compute::host_memory());

  const TensorTable& table() const noexcept { return table_; }
  std::span<Real> parameters() noexcept { return parameters_.span(); }
  std::span<Real> gradients() noexcept { return gradients_.span().last(table_.arena_size); }
  /// Side by side in memory: the extra elements, and then each tensor's gradient in the table's order, with
  /// the gap behind it.
  std::vector<std::span<Real>> extra_and_gradients() noexcept;
  Real* parameter(std::size_t tensor) noexcept { return parameters_.data() + table_.tensors[tensor].offset; }
  Real* gradient(std::size_t tensor) noexcept { return gradients().data() + table_.tensors[tensor].offset; }
  /// The parameters as of the last round_parameters() or update; empty unless they were asked for.
  std::span<bfloat16> rounded() noexcept { return rounded_.span(); }
  /// The parameter as a model takes it that computes in this type: Real, or bfloat16 for the rounded one.
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

  /// Overwrites the parameters; the same for the same seed on every machine. round_parameters() follows.
  void initialize(std::uint64_t seed);
  /// Where there are rounded parameters, makes them follow the others.
  void round_parameters(compute::UpdateCompute<Real>& compute);

 private:
  TensorTable table_;
  compute::Memory& memory_;
  compute::Arena<Real> parameters_, gradients_;
  compute::Arena<bfloat16> rounded_;
};

/// Places in one arena for blocks of memory that are asked for one by one, each at the start of a cache line.
template <typename Real>
class Layout {
 public:
  /// `*pointer` is set by place(); it must stay where it is until then.
  void want(Real** pointer, std::size_t count) { wanted_.emplace_back(pointer, count); }
  compute::Arena<Real> place(compute::Memory& memory) const;

 private:
  std::vector<std::pair<Real**, std::size_t>> wanted_;
};

}  // namespace muster::models
