// SPDX-License-Identifier: Apache-2.0
// Every line that the plugin prints, but for tables. Their parts may be a user's: what a terminal would obey
// is replaced. A line has at most 4000 bytes. libc alone; needs no memory.
#pragma once

namespace muster::spank {

/// To the user: in srun its standard error, on a node the task's.
[[gnu::format(printf, 1, 2)]] void log_to_user(const char* format, ...) noexcept;
/// An error of srun, sbatch or salloc.
[[gnu::format(printf, 1, 2)]] void log_error(const char* format, ...) noexcept;
/// To the administrator: on a node into slurmd's log.
[[gnu::format(printf, 1, 2)]] void log_to_node(const char* format, ...) noexcept;
/// With srun --verbose.
[[gnu::format(printf, 1, 2)]] void log_detail(const char* format, ...) noexcept;

}  // namespace muster::spank
