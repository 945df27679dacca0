// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "options.hpp"
#include "placement/topology/cpu_set.hpp"

namespace muster::spank {

/// Binds the calling process to these CPUs. Returns 0 or errno (EINVAL: none of them lies in the process's
/// cpuset).
int bind_to_cpus(const placement::CpuSet& cpus);

/// Memory of these NUMA domains. MemoryPolicy::prefer: first, the first of them where the kernel takes only
/// one (before Linux 5.15); memory elsewhere is used when they are full. MemoryPolicy::bind: no other; an
/// allocation that does not fit then ends the process. Leaves a policy that is set already (Slurm's
/// --mem-bind) as it is. Returns 0 or errno.
int set_memory(MemoryPolicy policy, const std::vector<int>& domains);

}  // namespace muster::spank
