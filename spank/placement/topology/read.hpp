// SPDX-License-Identifier: Apache-2.0
// Readers: each gives a finished Node or throws Error. They read files and nothing else; not one starts a
// thread or touches a GPU driver. Safe to call from several threads, except read_hwloc_live() (hwloc reads
// the environment).
#pragma once

#include <string>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// This machine, from /sys and /proc below root ("/" or the top of a copied or made-up tree). Links nothing
/// but libc: it runs in every job step. Throws Error if there is no CPU to be found there.
Node read_live(const std::string& root = "/");

/// The half of read_live() that stays as it is until the node boots or its devices change, and may therefore
/// be kept: source, cores, domains, GPUs, and the notes on these. Not a finished Node. Throws Error as
/// read_live().
Node read_stable(const std::string& root = "/");

/// The other half, read afresh for every step: adds the host's name and the NICs (links go down, bonds and
/// routes change) to what read_stable() gave, and finishes the node.
void read_changing(Node& node, const std::string& root = "/");

/// An hwloc XML file (lstopo --of xml) of format 1, 2 or as new as the hwloc built with. The whole machine,
/// also where the exporting process was confined to a part of it. GPUs of other makers are noted, not listed.
Node read_hwloc_xml(const std::string& path);

/// This machine through hwloc, without its components that load GPU drivers (gl, opencl, cuda, nvml, rsmi,
/// levelzero). Slower than read_live() and kept as an independent witness for tests.
Node read_hwloc_live();

/// An NCCL topology file (NCCL_TOPO_FILE or NCCL_TOPO_DUMP_FILE). A <cpu> element without affinity is a
/// domain whose CPUs are hidden; at least one must have some.
Node read_nccl_xml(const std::string& path);

/// The same for a file that may leave to the machine what the machine knows: <cpu> elements need no affinity,
/// <pci> elements no class (Amazon's for g5.48xlarge has neither). For override_locality(): it has no cores
/// then, and a device of unknown class is listed as a GPU and as a NIC.
Node read_nccl_locality(const std::string& path);

/// A topology file of either kind, told apart by its root element. An NCCL file without any affinity
/// (Amazon's) takes all but the locality of its devices from the machine below root ("/"), if that has them;
/// else throws Error.
Node read_topology_file(const std::string& path);
Node read_topology_file(const std::string& path, const std::string& root);

/// This machine as read_live(root) gives it, with the locality of its GPUs and NICs as an administrator's
/// NCCL file says, for virtual machines whose PCI tree says nothing. Throws Error if either cannot be read.
Node read_live_with_topology(const std::string& root, const std::string& file);

/// The second half of that, pure: GPUs and NICs that `given` names by PCI address get its NUMA domain, if the
/// machine has such a domain, and its PCI path; what it does not name stays. What does not match is noted.
/// The cores, domains and their memory stay live.
void override_locality(Node& live, const Node& given);

}  // namespace muster::placement
