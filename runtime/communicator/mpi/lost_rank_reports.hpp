// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::detail {

/// Keeps Open MPI's reports of lost ranks in this process from now on. Slurm kills the whole step within
/// milliseconds of such a report, before the line that names the lost rank is printed; without it Slurm kills
/// the step about a second after the loss. Any thread may call this, before MPI_Init.
void suppress_lost_rank_reports();

}  // namespace muster::detail
