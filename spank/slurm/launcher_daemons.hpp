// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "options.hpp"

namespace muster::spank {

/// Whether a program is the daemon that an mpirun starts on each node through srun: Open MPI's, or that of
/// MPICH and Intel MPI.
bool is_launcher_daemon(std::string_view program);

/// What of a placement fits all ranks that such a daemon starts, which have its environment and its binding:
/// what names networks. Ranks, GPUs, cores and memory are the daemon's own.
Parts parts_for_daemon(Parts parts);

}  // namespace muster::spank
