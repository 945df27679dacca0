// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "options.hpp"

namespace muster::spank {

/// Whether a program is the daemon that mpirun starts on each node through srun: that of Open MPI, or of
/// MPICH and Intel MPI.
bool is_launcher_daemon(std::string_view program);

/// The parts that suit all ranks of such a daemon, since they inherit its environment and its binding: only
/// the variables that name networks. The daemon assigns ranks, GPUs, cores and memory itself.
EnabledParts parts_for_daemon(EnabledParts parts);

}  // namespace muster::spank
