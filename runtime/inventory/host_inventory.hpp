// SPDX-License-Identifier: Apache-2.0
// What one rank reads from its host that must match the other ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inventory/fabric.hpp"

namespace muster::bootstrap {

/// A network interface that is up, with its first address, as NCCL sees it (ncclFindInterfaces,
/// src/misc/socket.cc).
struct Interface {
  std::string name;
  std::string address;  ///< numeric, IPv4 or IPv6
  int prefix = 0;       ///< length of the subnet prefix in bits
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
  bool warn_only = false;  ///< MUSTER_PREFLIGHT=warn: fatal findings are only logged; rank 0's value counts
  bool nccl = false;       ///< the job uses NCCL, or reads what NCCL would use
  std::string driver;      ///< version of the NVIDIA kernel driver
  int gpus_openable = -1;  ///< GPU device files that the kernel lets this process open; -1: there are none
  Fabric fabric;           ///< of this rank's GPU
  std::vector<int> imex_channels;  ///< IMEX channels that this rank may open
  bool local_first = true;         ///< the host's first rank; only it reads the next two
  std::vector<Interface> interfaces;
  std::vector<RdmaPort> adapters;
  /// NCCL_*, UCX_*, and Open MPI's variables that choose a transport or an algorithm. NCCL's also come from
  /// its files (base/nccl_conf).
  std::map<std::string, std::string> variables;
};

/// What read_host_inventory() reads.
struct InventoryRequest {
  bool nccl = false;      ///< this rank's world communicator is on NCCL
  bool has_peers = true;  ///< there are other ranks
  int local_rank = 0;
  std::string gpu = {};  ///< PCI address of this rank's GPU; empty: none
};

/// Reads /sys, /dev and the environment, and with NCCL its configuration files and NVML, which NCCL
/// initialises anyway. Takes some tens of microseconds without NCCL, and 0.3 ms with it on a host with eight
/// adapters (on its first rank). `root`: the folder to read instead of "/".
HostInventory read_host_inventory(const InventoryRequest& request, const std::string& root = "/");

/// The variables that HostInventory stores, by name, from "NAME=value" texts ending with a null pointer, and
/// those of `in_files` that are not among them. Values over 160 bytes are cut and end with a checksum. At
/// most 64 variables.
std::map<std::string, std::string> relevant_variables(
    const char* const* environment, bool nccl, const std::map<std::string, std::string>& in_files = {});

}  // namespace muster::bootstrap
