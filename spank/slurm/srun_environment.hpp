// SPDX-License-Identifier: Apache-2.0
// What srun puts into its environment for the nodes before it starts a step (local_user_init).
#pragma once

struct spank_handle;

namespace muster::spank {

/// Under --distribution=arbitrary queries slurmctld for the node of each rank, which Slurm does not pass to
/// the nodes (layout_variable). Does nothing under other distributions, or if slurmctld does not answer; the
/// nodes then do without.
void publish_arbitrary_layout(spank_handle* spank);

/// With this variable a user chooses the algorithm of mpi/pmix for fences between nodes: `mixed`, `tree` or
/// `ring`.
inline constexpr const char* fence_variable = "SLURM_PMIX_FENCE";
/// In this variable srun passes to the tasks the value that Muster gave the variable above. srun passes
/// variables with this prefix under --export=NONE too.
inline constexpr const char* fence_marker = "SLURM_MUSTER_FENCE";

/// Requests fences over a ring, if the step has several nodes and the user has not chosen. In a step of fewer
/// nodes than TreeWidth Slurm's tree has no edges, so a fence without data, with which MPI_Init ends, does
/// not wait for other nodes; the first message of a fast rank then crashes a slow one inside MPI_Init. In
/// srun and not on the nodes, which must all agree.
void request_ring_fence(spank_handle* spank);

}  // namespace muster::spank
