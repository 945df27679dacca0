// SPDX-License-Identifier: Apache-2.0
#pragma once

struct spank_handle;

namespace muster::spank {

/// In srun, before it starts a step (local_user_init): under --distribution=arbitrary queries slurmctld for
/// the node of each rank, which Slurm does not pass to the nodes, and puts it into srun's environment for
/// them (layout_variable). Does nothing under other distributions, or if slurmctld does not answer; the nodes
/// then do without.
void publish_arbitrary_layout(spank_handle* spank);

}  // namespace muster::spank
