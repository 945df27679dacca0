// SPDX-License-Identifier: Apache-2.0
// A task that Muster does not place, although srun had asked Slurm not to bind GPUs because it would be.
#pragma once

struct spank_handle;

namespace muster::spank {

/// In user_init: where srun lifted the isolation, keeps what Slurm says of the step's GPUs, since it tells
/// its tasks nothing of them then (22.05). Costs one look-up where nothing was lifted.
void note_step_gpus(spank_handle* spank) noexcept;

/// In task_init, last. Where srun lifted the isolation (isolation.hpp): takes the variables that did it out
/// of the task's environment, so that an srun within the task decides for itself, and, unless the task has
/// got its own GPUs already, sets the CUDA_VISIBLE_DEVICES that Slurm would have set. False, with a line in
/// the log, when that cannot be done: the task must end then, or it would use its neighbours' GPU unnoticed.
/// Costs one look-up where nothing was lifted.
bool settle_lifted_isolation(spank_handle* spank, bool gpus_told_apart) noexcept;

}  // namespace muster::spank
