// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "transport/process_handle.hpp"

namespace muster::bootstrap {

/// What started this process on this host and looks after it: Slurm's slurmstepd, or the daemon of mpirun or
/// prterun. When it is killed its processes run on with nobody to end them.
struct Launcher {
  control::ProcessHandle process;
  std::string name;  ///< /proc/PID/comm
};

/// The nearest such process above this one, whatever shells stand between; nothing when there is none or it
/// cannot be seen from here (a container with processes of its own).
std::optional<Launcher> find_launcher();

}  // namespace muster::bootstrap
