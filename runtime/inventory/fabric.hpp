// SPDX-License-Identifier: Apache-2.0
// The NVLink fabric of this rank's GPU as NVML reports it, and the IMEX channels that the rank may open. Both
// decide whether NCCL uses NVLink between hosts (multi-node NVLink, as in an NVL72 rack).
#pragma once

#include <string>
#include <vector>

#include "deadline.hpp"

namespace muster::bootstrap {

/// Values of nvmlDeviceGetGpuFabricInfoV().
struct Fabric {
  enum class State {
    unknown,      ///< NVML was not queried, is missing or too old, or did not respond
    unsupported,  ///< the GPU has no fabric
    not_started,
    in_progress,
    completed
  };
  State state = State::unknown;
  int status = 0;       ///< of a completed registration: an NVML error, 0 for success
  std::string cluster;  ///< the cluster's UUID in hexadecimal; empty: the fabric does not leave this host
  int clique = 0;       ///< GPUs of one cluster and clique reach each other over NVLink
  std::string health_issues;  ///< such as "degraded bandwidth, unhealthy route"; empty: none known
};

/// The fabric of the GPU at a PCI address. Loads libnvidia-ml.so.1, or the file that MUSTER_NVML_LIBRARY
/// names. This may take long when the driver hangs; after the deadline the state is unknown.
Fabric read_fabric(const std::string& pci_address, const Deadline& deadline);

/// The number N of each /dev/nvidia-caps-imex-channels/channelN that this process may open, ascending. `root`
/// is put before that path.
std::vector<int> imex_channels(const std::string& root);

}  // namespace muster::bootstrap
