// SPDX-License-Identifier: Apache-2.0
// In a task that cannot be treated as somebody wished.
#pragma once

struct spank_handle;

namespace muster::spank {

/// `strict` ends the task here, since an `optional` plugin's return value stops nothing; else it runs on.
/// Says which and why in the log; where all tasks of the node fail alike, one of them does.
void give_up(spank_handle* spank, const char* why, bool strict, bool all_tasks_alike) noexcept;

/// Ends the task: with another's GPUs in sight it would use those unnoticed.
[[noreturn]] void end_task() noexcept;

}  // namespace muster::spank
