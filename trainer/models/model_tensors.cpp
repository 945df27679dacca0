// SPDX-License-Identifier: Apache-2.0
#include "models/model_tensors.hpp"

#include <algorithm>

#include "compute/cpu/parallel_for.hpp"
#include "muster/philox.hpp"

namespace muster::models {
namespace {

/// Initial value of element `index` of the tensor.
double initial_element(const Tensor& tensor, std::uint64_t seed, std::size_t index) {
  if (tensor.initial_spread <= 0) return tensor.initial_value;
  if (tensor.distribution == Distribution::normal)
    return tensor.initial_spread * normal(seed, tensor.number, index);
  const auto bits = static_cast<double>(uniform_bits(seed, tensor.number, index) >> 11);
  return tensor.initial_spread * (bits * 0x1p-52 - 1);
}

}  // namespace

template <typename Real>
ModelTensors<Real>::ModelTensors(TensorTable table, std::size_t extra, bool rounds, compute::Memory& memory,
                                 compute::Memory* parameters, bool rounded_only)
    : table_(std::move(table)),
      memory_(parameters ? *parameters : memory),
      parameters_(rounded_only ? 0 : table_.arena_size, memory_),
      gradients_(compute::aligned_count<Real>(extra) + table_.arena_size, memory),
      rounded_(rounds ? table_.arena_size : 0, memory_) {}

template <typename Real>
std::vector<std::span<Real>> ModelTensors<Real>::extra_and_gradients() noexcept {
  std::vector<std::span<Real>> parts{gradients_.span().first(gradients_.size() - table_.arena_size)};
  for (std::size_t i = 0; i < table_.tensors.size(); ++i) {
    const std::size_t begin = table_.tensors[i].offset;
    const std::size_t end = i + 1 < table_.tensors.size() ? table_.tensors[i + 1].offset : table_.arena_size;
    parts.push_back(gradients().subspan(begin, end - begin));
  }
  return parts;
}

template <typename Real>
void ModelTensors<Real>::initialize(std::uint64_t seed) {
  compute::Arena<Real> elsewhere(memory_.is_host() ? 0 : table_.arena_size);
  Real* const parameters = memory_.is_host() ? parameters_.data() : elsewhere.data();
  for (const Tensor& tensor : table_.tensors) {
    Real* to = parameters + tensor.offset;
    // Use all CPUs of this rank: the other ranks wait for the initial parameters.
    const auto fill = [&](std::size_t begin, std::size_t end) {
      for (std::size_t j = begin; j < end; ++j) to[j] = Real(initial_element(tensor, seed, j));
    };
    compute::cpu::parallel_for(omp_get_num_procs(), tensor.count, 1, tensor.count, fill);
  }
  memory_.copy_in(parameters_.data(), elsewhere.data(), elsewhere.size() * sizeof(Real));
}

template <typename Real>
void ModelTensors<Real>::read_parameters(const std::function<void(std::span<Real>)>& read) {
  if (memory_.is_host()) return read(parameters_.span());
  compute::Arena<Real> elsewhere(table_.arena_size);
  read(elsewhere.span());
  memory_.copy_in(parameters_.data(), elsewhere.data(), elsewhere.size() * sizeof(Real));
}

template <typename Real>
void ModelTensors<Real>::round_parameters(compute::UpdateCompute<Real>& compute) {
  compute.round(parameters_.data(), rounded_.data(), rounded_.size());
}

template <typename Real>
void ModelTensors<Real>::update_statistics(compute::UpdateCompute<Real>& compute, const Share& part) {
  const std::size_t begin = std::max<std::size_t>(part.begin, table_.trained_size);
  if (begin >= part.end) return;
  compute.move_statistics(parameters_.data() + begin, gradients().data() + begin, part.end - begin,
                          statistic_momentum);
}

template <typename Real>
compute::Arena<Real> Layout<Real>::allocate(compute::Memory& memory) const {
  std::size_t total = 0;
  for (const auto& [pointer, count] : blocks_) total += compute::aligned_count<Real>(count);
  compute::Arena<Real> arena(total, memory);
  Real* next = arena.data();
  for (const auto& [pointer, count] : blocks_) {
    *pointer = next;
    next += compute::aligned_count<Real>(count);
  }
  return arena;
}

template class ModelTensors<float>;
template class ModelTensors<double>;
template class Layout<float>;
template class Layout<double>;
template class Layout<bfloat16>;
template class Layout<std::uint8_t>;

}  // namespace muster::models
