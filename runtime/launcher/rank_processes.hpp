// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/launcher_detection.hpp"

namespace muster::bootstrap {

/// A process of this host that belongs to a rank.
struct RankProcess {
  long pid = 0;
  std::string name;  ///< /proc/PID/comm
};

/// Key of a process whose environment cannot be read now, and which may belong to any rank.
inline constexpr int unreadable = -1;

/// The ranks of this job that have a process on this host, joined or not. Found by the launcher's variables,
/// which equal this process's own, in the initial environments of this user's processes (/proc/PID/environ).
/// Of a rank's processes, the one with the lowest pid; one unreadable process under `unreadable`.
/// @param method Bootstrap::name(): "pmix", "slurm" or "address"; empty result for any other. It selects the
/// variables: Slurm numbers its tasks, which are not the ranks when another launcher starts them.
/// @param proc the proc filesystem
std::map<int, RankProcess> find_rank_processes(const GetEnv& get_env, const std::string& method,
                                               const std::string& proc = "/proc");

}  // namespace muster::bootstrap
