// SPDX-License-Identifier: Apache-2.0
#pragma once

struct spank_handle;

namespace muster::spank {

/// False for Slurm's own steps: batch script, extern, interactive.
bool is_task_step(spank_handle* spank) noexcept;

}  // namespace muster::spank
