// SPDX-License-Identifier: Apache-2.0
// A task that Muster does not place, although srun turned Slurm's GPU isolation off for a placement.
#pragma once

struct spank_handle;

namespace muster::spank {

/// In user_init: if srun turned isolation off, stores Slurm's lists of the step's GPUs, since the tasks then
/// do not get them (22.05). Otherwise costs one look-up.
void record_step_gpus(spank_handle* spank) noexcept;

/// In task_init, last. If srun turned isolation off (isolation.hpp): removes the variables that did it from
/// the task's environment, so that an srun within the task decides for itself. Unless gpus_assigned (the
/// task has its GPUs already), sets the lists of GPUs that Slurm would have set. False, with a line in the
/// log, if that fails: the task must then end, or it would use its neighbours' GPU unnoticed. Costs one
/// look-up if isolation was not turned off.
bool undo_isolation_override(spank_handle* spank, bool gpus_assigned) noexcept;

}  // namespace muster::spank
