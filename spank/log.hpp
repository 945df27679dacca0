// SPDX-License-Identifier: Apache-2.0
// All lines that the plugin prints, except tables. Parts of a line may come from a user, so characters that a
// terminal would interpret are replaced. A line has at most 4000 bytes. Needs only libc, and allocates
// nothing.
#pragma once

namespace muster::spank {

/// To the user: on srun's standard error, on a node on the task's.
[[gnu::format(printf, 1, 2)]] void log_to_user(const char* format, ...) noexcept;
/// An error of srun, sbatch or salloc.
[[gnu::format(printf, 1, 2)]] void log_error(const char* format, ...) noexcept;
/// To the administrator: on a node to slurmd's log.
[[gnu::format(printf, 1, 2)]] void log_to_node(const char* format, ...) noexcept;
/// With srun --verbose.
[[gnu::format(printf, 1, 2)]] void log_detail(const char* format, ...) noexcept;

}  // namespace muster::spank
