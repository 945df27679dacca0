// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster::bootstrap {

/// What this process knows of itself before anybody is asked: host, boot id, pid, CPUs, versions, the placed
/// GPU and its address.
Hello make_hello();

/// The first GPU in MUSTER_GPUS (a PCI address, or a UUID for MIG), empty when the plugin placed none.
std::string placed_gpu();

/// Numeric IP addresses of this host's interfaces that are up: first the one that routes to Slurm's launching
/// host, bridges of container engines last, loopback only when there is nothing else.
std::vector<std::string> own_addresses();

/// This process's network namespace, "net:[4026531840]"; empty when it cannot be read.
std::string network_namespace();

/// The value of an environment variable, empty when it is not set.
std::string variable(const char* name);

/// The CPUs in a list such as "0-3,8", ascending. Anything unreadable in it is left out.
std::vector<int> cpus_in(const std::string& list);

}  // namespace muster::bootstrap
