// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::detail {

/// From now on Open MPI's reports of lost ranks stay in this process. Slurm kills the whole step at such a
/// report, within milliseconds and before the line that names the lost rank; it kills the step about a second
/// after the loss anyway. Any thread may call it, before MPI_Init.
void keep_lost_rank_reports();

}  // namespace muster::detail
