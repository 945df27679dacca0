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

}  // namespace muster::models
