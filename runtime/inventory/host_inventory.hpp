// SPDX-License-Identifier: Apache-2.0
// What one rank finds around itself that must fit the other ranks'.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inventory/fabric.hpp"

namespace muster::bootstrap {

/// A network interface that is up, with the first of its addresses, as NCCL takes them (ncclFindInterfaces,
/// src/misc/socket.cc).
struct Interface {
  std::string name;
  std::string address;  ///< numeric, IPv4 or IPv6
  int prefix = 0;       ///< bits of it that name the subnet
};

/// One port of an RDMA device.
struct RdmaPort {
  std::string name;  ///< "mlx5_0"
  int port = 1;
  bool up = false;
  std::string link_layer;  ///< "InfiniBand" or "Ethernet"
  std::string subnet;      ///< the first half of GID 0 on InfiniBand, else empty
};

struct HostInventory {
  bool lenient =
      false;  ///< MUSTER_PREFLIGHT=warn: what preflight() calls fatal is told, no more; rank 0's counts
  bool nccl = false;       ///< the job uses NCCL (or is asked what NCCL would find)
  std::string driver;      ///< version of the NVIDIA kernel driver
  int gpus_openable = -1;  ///< GPU device files that the kernel lets this process open; -1: there are none
  Fabric fabric;           ///< of this rank's GPU
  std::vector<int> imex_channels;  ///< that this rank may open
  bool local_first = true;         ///< the host's first rank, which alone reads what follows
  std::vector<Interface> interfaces;
  std::vector<RdmaPort> adapters;
  /// NCCL_*, UCX_* and those of Open MPI's variables that choose a transport or an algorithm; NCCL's also
  /// from its files (nccl_conf.hpp).
  std::map<std::string, std::string> variables;
};

/// What may be asked for.
struct InventoryRequest {
  bool nccl = false;   ///< this rank's world communicator is NCCL's
  bool others = true;  ///< there are other ranks
  int local_rank = 0;
  std::string gpu = {};  ///< PCI address of this rank's GPU; empty: none
};

/// Reads /sys, /dev, the environment and with NCCL its configuration files: some tens of microseconds without
/// NCCL, 0.3 ms with it on a host of eight adapters (on its first rank), and asks NVML, which NCCL
/// initialises anyway. `root`: below this folder instead of "/".
HostInventory read_host_inventory(const InventoryRequest& wish, const std::string& root = "/");

/// The variables that HostInventory keeps, from "NAME=value" texts ending with a null pointer, and those of
/// `in_files` that are not among them, by name. Values over 160 bytes are cut and end with a checksum. At
/// most 64.
std::map<std::string, std::string> relevant_variables(
    const char* const* environment, bool nccl, const std::map<std::string, std::string>& in_files = {});

}  // namespace muster::bootstrap
