// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/compute.hpp"

namespace muster {

/// FLOP/s that this device reaches in matrix products of float or bfloat16, 2·n³ operations each, as the
/// model computes them: of all that fit into 0.3 s, some milliseconds each, a tenth were faster. The median
/// would be half of it where another process has one of two cores for a while; the fastest, a GPU's before
/// its power limit.
template <typename Real>
double measure_peak(compute::Compute<Real>& compute);

}  // namespace muster
