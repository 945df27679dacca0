// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "placement/topology/live/sysfs.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

inline constexpr const char* pci_folder = "/sys/bus/pci/devices/";

/// Adds the NVIDIA GPUs to a node that has its domains: from /proc/driver/nvidia, or without a driver from
/// the PCI bus.
void read_live_gpus(const Sysfs& sysfs, Node& node);

/// Adds the ports of all RDMA devices and Slingshot adapters to a node that has its domains.
void read_live_nics(const Sysfs& sysfs, Node& node);

/// Sets the NUMA domain of a PCI device, or the domains that it is near to: from numa_node, or else from the
/// list of local CPUs. folder: the device's folder in sysfs. Leaves unchanged what it cannot find.
void read_locality(const Sysfs& sysfs, const std::string& folder, const Node& node, int& domain,
                   std::vector<int>& near_domains);

/// Parses a sysfs device link such as "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0". The path does
/// not include the device itself.
PciPath parse_device_link(const std::string& link);

}  // namespace muster::placement
