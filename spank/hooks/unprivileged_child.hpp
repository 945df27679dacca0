// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace muster::spank {

/// What a child hands back: a number from 0 to 127 and bytes.
struct ChildAnswer {
  int code = 0;
  std::string bytes;
};

struct ChildLimits {
  std::chrono::milliseconds time{20000};      ///< two names that the DNS does not answer take a few seconds
  std::size_t bytes = std::size_t{16} << 20;  ///< a plan of a thousand tasks takes 1 MiB
};

/// Gives up for good whatever the calling process may do beyond its effective user and group: real and saved
/// ids, capabilities, and new privileges by execve(2). Root's own process keeps its capabilities. False when
/// that cannot be done; the process must end then. Supplementary groups stay: Slurm has set the job's.
bool give_up_privileges() noexcept;

/// Runs `work` in a forked child that has given up its privileges, and returns its answer. The caller, who is
/// root with the job's effective user, parses nothing: it takes bytes up to a limit. In the child `work` may
/// use what the process has in memory; what it changes there is lost.
/// @throws std::runtime_error with one line when there is no child to be had, or it crashes, throws, takes
/// too long or says too much.
ChildAnswer run_unprivileged(const std::function<ChildAnswer()>& work, const ChildLimits& limits = {});

}  // namespace muster::spank
