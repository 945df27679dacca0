// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/compute.hpp"

namespace muster {

/// FLOP/s that this device reaches in matrix products of float or bfloat16: the median over those of about a
/// tenth of a second, of a shape that takes some milliseconds, as the model computes them. 2·n³ operations
/// each.
template <typename Real>
double measure_peak(compute::Compute<Real>& compute);

}  // namespace muster
