// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::compute {

/// Scalars that stand before the gradients and travel with them: sums over all chunks of all ranks. The loss
/// is the mean over the global batch; the others count chunks whose loss or gradients were not finite, and
/// chunks of ranks that want to stop or have failed.
enum StepSlot { loss_slot, not_finite_slot, stop_slot, failed_slot, step_slots };

}  // namespace muster::compute
