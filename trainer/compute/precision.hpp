// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/types.hpp"

namespace muster::compute {

template <typename Real>
struct AccurateOf {
  using type = Real;
};
template <>
struct AccurateOf<bfloat16> {
  using type = float;
};

/// Beside weights and activations in Real stand parameters, their gradients, the optimizer's moments and all
/// statistics in this type: float for bfloat16, else Real itself. Sums are formed in it.
template <typename Real>
using Accurate = typename AccurateOf<Real>::type;

}  // namespace muster::compute
