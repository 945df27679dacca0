// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "transport/process_handle.hpp"

namespace muster::bootstrap {

/// The process that started this one on this host and supervises it: Slurm's slurmstepd, or the daemon of
/// mpirun or prterun. When it is killed, its processes keep running and nothing ends them.
struct Launcher {
  control::ProcessHandle process;
  std::string name;  ///< /proc/PID/comm
};

/// The nearest such ancestor of this process, above any shells; nothing when there is none or it is not
/// visible from here (a container with its own PID namespace).
std::optional<Launcher> find_launcher();

}  // namespace muster::bootstrap
