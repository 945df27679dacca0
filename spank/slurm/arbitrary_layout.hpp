// SPDX-License-Identifier: Apache-2.0
#pragma once

struct spank_handle;

namespace muster::spank {

/// In srun, before it starts a step (local_user_init): under --distribution=arbitrary asks slurmctld on which
/// node each rank runs, which no node is told, and leaves it in srun's environment for the nodes
/// (told_variable). Does nothing under other distributions, and where slurmctld does not say; the nodes then
/// do without.
void tell_arbitrary_layout(spank_handle* spank);

}  // namespace muster::spank
