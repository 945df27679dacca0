// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "models/gpt.hpp"
#include "muster/philox.hpp"

/// Text of a small alphabet, so that tokens repeat within a batch.
inline std::vector<muster::compute::Token> test_text(std::size_t size, std::uint64_t seed = 5) {
  std::vector<muster::compute::Token> text(size);
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<muster::compute::Token>('a' + muster::uniform_bits(seed, 1000, i) % 23);
  }
  return text;
}

/// Large initial parameters, so that no part of the model is close to linear and no gradient close to zero.
template <typename Real>
void initialize_boldly(muster::models::ModelTensors<Real>& tensors, std::uint64_t seed) {
  for (std::size_t i = 0; i < tensors.table().tensors.size(); ++i) {
    const auto& tensor = tensors.table().tensors[i];
    Real* to = tensors.parameter(i);
    for (std::size_t j = 0; j < tensor.count; ++j) {
      to[j] = Real(tensor.initial_value + 0.15 * muster::normal(seed, i, j));
    }
  }
}

/// The formula of fixtures/torch_gradients.py and torch_llama.py.
template <typename Real>
void fill_as_the_scripts(muster::models::ModelTensors<Real>& tensors, double size) {
  const auto& table = tensors.table().tensors;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double around = table[i].name.ends_with("gain") ? 1 : 0, number = static_cast<double>(i);
    for (std::size_t j = 0; j < table[i].count; ++j) {
      tensors.parameter(i)[j] =
          Real(around + size * std::sin(1.37 * static_cast<double>(j) + 0.61 * number * number + 0.2));
    }
  }
}

template <typename Real>
muster::compute::cpu::CpuCompute<Real> test_compute(int threads = 1, bool use_dnnl = true) {
  return muster::compute::cpu::CpuCompute<Real>({threads, use_dnnl, nullptr});
}
