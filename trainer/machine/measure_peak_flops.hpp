// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/compute.hpp"

namespace muster {

/// FLOP/s that this device reaches in matrix products of float or bfloat16 (2·n³ operations each), computed
/// as the model computes them. Runs products of a few milliseconds for 0.3 s and returns the 90th percentile.
/// The median would be halved while another process uses one of two cores; the maximum would be a GPU's rate
/// before its power limit.
template <typename Real>
double measure_peak_flops(compute::Compute<Real>& compute);

}  // namespace muster
