// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cpu_set/cpu_set.hpp"
#include "options.hpp"

namespace muster::spank {

/// The CPUs that a process may run on; 0: the calling one. Empty: there is no such process.
CpuSet read_affinity(int pid = 0);

/// The NUMA domains whose memory the calling process may use; empty: the kernel does not say.
/// @throws std::runtime_error with one line if the kernel's list cannot be parsed.
std::vector<int> read_memory_domains();

/// Binds the calling process to these CPUs. Returns 0 or errno (EINVAL: none of them is in its cpuset).
int bind_to_cpus(const CpuSet& cpus);

/// Sets the calling process's memory policy to these NUMA domains. MemoryPolicy::prefer: their memory first,
/// other memory when they are full; where the kernel accepts only one domain (before Linux 5.15), the first.
/// MemoryPolicy::bind: no other memory; an allocation that does not fit ends the process. Keeps a policy that
/// is set already (Slurm's --mem-bind). Returns 0 or errno.
int set_memory(MemoryPolicy policy, const std::vector<int>& domains);

}  // namespace muster::spank
