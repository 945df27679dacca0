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

/// The type of parameters, their gradients, optimizer moments, statistics and sums when weights and
/// activations are Real: float for bfloat16, else Real itself.
template <typename Real>
using Accurate = typename AccurateOf<Real>::type;

}  // namespace muster::compute
