// SPDX-License-Identifier: Apache-2.0
// Readers: each returns a finished Node or throws Error. They only read files; none starts a thread or calls
// a GPU driver. Safe to call from several threads, except read_hwloc_live() (hwloc reads the environment).
#pragma once

#include <string>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// This machine, from /sys and /proc below root ("/" or the top of a copied or synthetic tree). Needs only
/// libc, because it runs in every job step. Throws Error if it finds no CPU.
Node read_live(const std::string& root = "/");

/// The half of read_live() that changes only when the node boots or its devices change, and may therefore be
/// cached: source, cores, domains, GPUs, and their notes. Not a finished Node. Throws Error like read_live().
Node read_static(const std::string& root = "/");

/// The other half, which every step reads: adds the host's name and the NICs (links go down, bonds and routes
/// change) to the result of read_static(), and finishes the node.
void read_dynamic(Node& node, const std::string& root = "/");

/// An hwloc XML file (lstopo --of xml), up to the format of the hwloc that Muster was built with. Reads the
/// whole machine, even if the exporting process was confined to a part of it. AMD GPUs are noted, not listed.
Node read_hwloc_xml(const std::string& path);

/// This machine through hwloc, without its components that load GPU drivers (gl, opencl, cuda, nvml, rsmi,
/// levelzero). Slower than read_live(); tests compare both.
Node read_hwloc_live();

/// An NCCL topology file (NCCL_TOPO_FILE or NCCL_TOPO_DUMP_FILE). A <cpu> element without affinity becomes a
/// domain with hidden CPUs; at least one must have an affinity.
Node read_nccl_xml(const std::string& path);

/// The same for override_locality(), which takes the rest from the machine: <cpu> elements need no affinity
/// and <pci> elements no class (Amazon's file for g5.48xlarge has neither). The node then has no cores, and
/// lists a device of unknown class both as a GPU and as a NIC.
Node read_nccl_locality(const std::string& path);

/// A topology file of either kind, recognised by its root element. For an NCCL file without any affinity
/// (Amazon's), everything but the locality of its devices comes from the machine below root ("/"). Throws
/// Error if this is not the machine that the file describes.
Node read_topology_file(const std::string& path);
Node read_topology_file(const std::string& path, const std::string& root);

/// Gives a live machine the locality of an administrator's NCCL file, from read_nccl_locality(). For virtual
/// machines whose PCI tree hides the locality. GPUs and NICs that `given` lists by PCI address get its PCI
/// path, and its NUMA domain if the machine has that domain. Other devices, cores, domains and memory keep
/// their live values. Adds notes about devices and domains that do not match. Pure.
void override_locality(Node& live, const Node& given);

}  // namespace muster::placement
