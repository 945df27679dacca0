// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::compute {

/// Scalars in front of the gradients that are reduced with them: sums over all chunks of all ranks. The loss
/// is the mean over the global batch; the others count chunks whose loss or gradients were not finite, and
/// chunks of ranks that request a stop or have failed.
enum ReducedScalar { loss_slot, non_finite_slot, stop_slot, failed_slot, reduced_scalar_count };

}  // namespace muster::compute
