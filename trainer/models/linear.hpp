// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "compute/compute.hpp"

namespace muster::models {

/// d_input, d_weight and d_bias (those that are not null) of out[rows, to] = input[rows, from]·weight^T +
/// bias.
template <typename Real>
void linear_backward(compute::Compute<Real>& compute, const Real* input, const Real* weight,
                     const Real* d_out, std::type_identity_t<Real>* d_input, Real* d_weight,
                     std::type_identity_t<Real>* d_bias, int rows, int from, int to) {
  if (d_input) compute.matmul({rows, from, to, false, false, false, false}, d_out, weight, nullptr, d_input);
  compute.matmul({to, from, rows, true, false, false, false}, d_out, input, nullptr, d_weight);
  if (d_bias) compute.column_sums(d_out, d_bias, rows, to);
}

}  // namespace muster::models
