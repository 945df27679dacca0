// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "compute/compute.hpp"

namespace muster::models {

/// The gradient of the input of out[rows, to] = input[rows, from]·weight^T + bias.
template <typename Real>
void input_gradient(compute::Compute<Real>& compute, const Real* weight, const Real* d_out,
                    std::type_identity_t<Real>* d_input, int rows, int from, int to) {
  compute.matmul({rows, from, to, false, false, false, false}, d_out, weight, nullptr, d_input);
}

/// Gradients of out[rows, to] = input[rows, from]·weight^T + bias: d_input (unless null), d_weight and d_bias
/// (unless null).
template <typename Real>
void linear_backward(compute::Compute<Real>& compute, const Real* input, const Real* weight,
                     const Real* d_out, std::type_identity_t<Real>* d_input,
                     compute::Accurate<Real>* d_weight, compute::Accurate<Real>* d_bias, int rows, int from,
                     int to) {
  if (d_input) input_gradient(compute, weight, d_out, d_input, rows, from, to);
  compute.weight_gradient(rows, from, to, input, d_out, d_weight, d_bias);
}

}  // namespace muster::models
