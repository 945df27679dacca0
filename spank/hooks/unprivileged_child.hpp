// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace muster::spank {

/// What a child returns: a number from 0 to 127 and bytes.
struct ChildResult {
  int code = 0;
  std::string bytes;
};

struct ChildLimits {
  std::chrono::milliseconds time{20000};      ///< two DNS queries without an answer take a few seconds
  std::size_t bytes = std::size_t{16} << 20;  ///< a plan of a thousand tasks takes 1 MiB
};

/// Permanently drops the calling process's privileges beyond its effective user and group: real and saved
/// ids, capabilities, and new privileges by execve(2). If the effective user is root, the capabilities stay.
/// False if that fails; the process must then end. Supplementary groups stay: Slurm has set the job's.
bool drop_privileges() noexcept;

/// Runs `work` in a forked child that has dropped its privileges, and returns its result. The caller, which
/// is root with the job's effective user, parses nothing: it reads bytes up to a limit. In the child `work`
/// may use the memory of the process; its changes there are lost.
/// @throws std::runtime_error with one line if no child can be started, or if it crashes, throws, takes too
/// long or returns too many bytes.
ChildResult run_unprivileged(const std::function<ChildResult()>& work, const ChildLimits& limits = {});

}  // namespace muster::spank
