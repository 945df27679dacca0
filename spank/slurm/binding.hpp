// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cpu_set/cpu_set.hpp"
#include "options.hpp"

namespace muster::spank {

/// Binds the calling process to these CPUs. Returns 0 or errno (EINVAL: none of them is in its cpuset).
int bind_to_cpus(const CpuSet& cpus);

/// Sets the calling process's memory policy to these NUMA domains. MemoryPolicy::prefer: their memory first,
/// other memory when they are full; where the kernel accepts only one domain (before Linux 5.15), the first.
/// MemoryPolicy::bind: no other memory; an allocation that does not fit ends the process. Keeps a policy that
/// is set already (Slurm's --mem-bind). Returns 0 or errno.
int set_memory(MemoryPolicy policy, const std::vector<int>& domains);

}  // namespace muster::spank
