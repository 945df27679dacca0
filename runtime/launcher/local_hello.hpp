// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster::bootstrap {

/// What this process knows without the launcher: host, boot id, pid, CPUs, versions and the placed GPU.
Hello make_hello();

/// gethostname(); "unknown" when it fails.
std::string host_name();

/// The first GPU in MUSTER_GPUS (a PCI address, or a UUID for MIG), empty when the plugin placed none.
std::string placed_gpu();

/// Numeric IP addresses of this host's interfaces that are up: first the one that routes to Slurm's launching
/// host, bridges of container engines last, loopback only when there is nothing else.
std::vector<std::string> own_addresses();

/// This process's network namespace, "net:[4026531840]"; empty when it cannot be read.
std::string network_namespace();

/// The value of an environment variable, empty when it is not set.
std::string get_env(const char* name);

}  // namespace muster::bootstrap
