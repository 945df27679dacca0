// SPDX-License-Identifier: Apache-2.0
#pragma once

struct spank_handle;

namespace muster::spank {

/// By it mpi/pmix chooses how a step's nodes meet in a PMIx fence: `mixed`, `tree` or `ring`.
inline constexpr const char* fence_variable = "SLURM_PMIX_FENCE";
/// Travels from srun to the tasks: the value that Muster gave the variable above. With this prefix srun hands
/// it on under --export=NONE too.
inline constexpr const char* fence_mark = "SLURM_MUSTER_FENCE";

/// In srun, before it starts a step (local_user_init): where the step has several nodes and the user has not
/// chosen, asks for fences over a ring. Slurm's tree has no edges in a step of fewer nodes than TreeWidth, so
/// a fence without data, with which MPI_Init ends, does not wait for other nodes; the first message of a fast
/// rank then crashes a slow one inside MPI_Init. In srun and not on the nodes, which must all agree.
void ask_for_ring_fence(spank_handle* spank);

}  // namespace muster::spank
