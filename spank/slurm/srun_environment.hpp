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

/// In this variable srun passes random hexadecimal digits to the tasks. Without PMIx, libmuster computes from
/// them the ports on which rank 0 listens, so that other users cannot compute and take these ports.
inline constexpr const char* port_seed_variable = "SLURM_MUSTER_PORT_SEED";
/// Draws them, once in a process: the components of a heterogeneous step have the same.
void publish_port_seed();

/// Requests fences over a ring, if the step has several nodes and the user has not chosen. In a step of fewer
/// nodes than TreeWidth Slurm's tree has no edges, so a fence without data, with which MPI_Init ends, does
/// not wait for other nodes; the first message of a fast rank then crashes a slow one inside MPI_Init. In
/// srun and not on the nodes, which must all agree.
void request_ring_fence(spank_handle* spank);

}  // namespace muster::spank
