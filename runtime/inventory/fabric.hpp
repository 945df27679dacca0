// SPDX-License-Identifier: Apache-2.0
// The NVLink fabric of this rank's GPU: what NVML says of it, and which IMEX channels the rank may open. Both
// decide whether NCCL uses NVLink between hosts (multi-node NVLink, as in an NVL72 rack).
#pragma once

#include <string>
#include <vector>

#include "deadline.hpp"

namespace muster::bootstrap {

/// As nvmlDeviceGetGpuFabricInfoV() gives it.
struct Fabric {
  enum class State {
    unknown,      ///< NVML was not asked, is missing, too old or did not answer
    unsupported,  ///< the GPU has no fabric
    not_started,
    in_progress,
    completed
  };
  State state = State::unknown;
  int status = 0;       ///< of the registration once it is completed: an NVML error, 0 for success
  std::string cluster;  ///< the cluster's UUID in hexadecimal; empty: the fabric ends on this host
  int clique = 0;       ///< GPUs of one cluster and clique reach each other over NVLink
  std::string ailment;  ///< "degraded bandwidth, unhealthy route"; empty: none is known
};

/// The fabric of the GPU at a PCI address. Loads libnvidia-ml.so.1, or what MUSTER_NVML_LIBRARY names, which
/// may take a while on a driver that hangs: what does not come before the deadline is unknown.
Fabric read_fabric(const std::string& pci_address, const Deadline& deadline);

/// N of each /dev/nvidia-caps-imex-channels/channelN that this process may open, ascending. `root`: below
/// this folder instead of "".
std::vector<int> imex_channels(const std::string& root);

}  // namespace muster::bootstrap
