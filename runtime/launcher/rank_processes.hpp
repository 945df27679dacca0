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

inline constexpr int unreadable = -1;

/// The ranks of this job that have a process on this host, whether it joined or not: read from the start
/// environments of this user's processes (/proc/PID/environ), where a launcher's variables are as this
/// process's own. `method` is the name of the membership, "pmix", "slurm" or "address": a step of Slurm's
/// counts its tasks, which are not the ranks where another launcher starts them. Nothing for any other. A
/// rank with several processes has its oldest here. With `unreadable` a process of this user's stands here
/// that does not let its environment be read now, and which may be any rank's. `proc`: where the system shows
/// its processes.
std::map<int, RankProcess> find_rank_processes(const GetEnv& variable, const std::string& method,
                                              const std::string& proc = "/proc");

}  // namespace muster::bootstrap
