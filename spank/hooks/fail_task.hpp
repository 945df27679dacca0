// SPDX-License-Identifier: Apache-2.0
// For a task that cannot be placed as requested.
#pragma once

struct spank_handle;

namespace muster::spank {

/// Logs the reason and the consequence; if all tasks of the node fail for the same reason, only one of them
/// logs it. With `strict` the task ends here, since an `optional` plugin's return value stops nothing;
/// otherwise it runs on.
void fail_task(spank_handle* spank, const char* why, bool strict, bool same_for_all_tasks) noexcept;

/// Ends the task. A task that can see its neighbours' GPUs would use them unnoticed.
[[noreturn]] void exit_task() noexcept;

}  // namespace muster::spank
