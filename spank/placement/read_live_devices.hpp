// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "placement/node.hpp"
#include "placement/sysfs.hpp"

namespace muster::placement {

/// Adds the NVIDIA GPUs to a node whose domains are known: from /proc/driver/nvidia, or without a driver from
/// the PCI bus.
void read_live_gpus(const Sysfs& sysfs, Node& node);

/// Adds the ports of all RDMA devices to a node whose domains are known.
void read_live_nics(const Sysfs& sysfs, Node& node);

/// A sysfs device link such as "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0" as the way up to the
/// processor, without the device itself.
PciPath parse_device_link(const std::string& link);

}  // namespace muster::placement
