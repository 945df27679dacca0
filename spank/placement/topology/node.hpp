// SPDX-License-Identifier: Apache-2.0
// The model of one host's hardware: plain data, filled by the readers (read.hpp) and by tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpu_set/cpu_set.hpp"
#include "placement/topology/pci_address.hpp"

namespace muster::placement {

/// How far two things on a node are apart, in the terms of `nvidia-smi topo -m`, nearest first.
enum class Distance {
  pix,      ///< within one PCI switch (or below one bridge)
  pxb,      ///< through several PCI switches, not through a host bridge
  phb,      ///< through one PCI host bridge
  node,     ///< between host bridges of one NUMA domain; for cores: on the domain
  sys,      ///< between NUMA domains
  unknown,  ///< the machine does not report it
};

/// "PIX", "PXB", "PHB", "NODE", "SYS" or "unknown".
const char* to_string(Distance distance);

/// One processor core and its hardware threads, as operating system CPU numbers.
struct Core {
  int package = 0;
  int domain = 0;  ///< id of the NUMA domain it belongs to
  CpuSet cpus;
};

/// One NUMA domain. place() takes memory from a memory-only domain (CXL) only if no domain with CPUs has
/// memory, and never from a GPU's (Grace, POWER9).
struct NumaDomain {
  int id = 0;                                 ///< the operating system's number; need not be contiguous
  CpuSet cpus;                                ///< empty for memory-only domains
  std::optional<std::uint64_t> memory_bytes;  ///< unset: unknown
  bool gpu_memory = false;                    ///< the memory of a GPU
  /// The domain has CPUs that the source does not show: `cpus` is empty, but its memory is ordinary.
  bool cpus_hidden = false;
  std::vector<int> distances;  ///< to domains[i] of the node (10 = local, as in ACPI's SLIT); empty: unknown

  /// Whether it belongs to a processor, and not to a GPU or a memory-only device.
  bool has_processor() const { return !cpus.empty() || cpus_hidden; }
};

/// The path from a device up to the processor.
struct PciPath {
  std::string host_bridge;  ///< names the host bridge, e.g. "pci0000:00"; empty: unknown
  /// PCI bridges, starting at the host bridge. A switch counts as two: its upstream and a downstream port.
  std::vector<PciAddress> bridges;
};

struct Gpu {
  PciAddress pci;
  int domain = -1;  ///< NUMA domain id; -1: unknown, or see near_domains
  /// Ids of several domains, but not all, that the GPU is equally near to (a package that is split into
  /// domains); empty otherwise.
  std::vector<int> near_domains;
  PciPath path;
  std::string uuid;   ///< "GPU-…"; empty: unknown
  std::string model;  ///< empty: unknown
  int minor = -1;     ///< N of /dev/nvidiaN; -1: unknown
};

enum class NicKind {
  infiniband,
  roce,       ///< an RDMA device over Ethernet
  efa,        ///< Amazon's adapter: libfabric, not verbs
  slingshot,  ///< HPE's adapter: libfabric, not verbs
  ethernet,   ///< no RDMA
  unknown,
};

/// One port of a network card that may do RDMA.
struct Nic {
  std::string name;  ///< RDMA device, e.g. "mlx5_0"; empty: unknown
  int port = 1;
  std::optional<PciAddress> pci;
  int domain = -1;                ///< NUMA domain id; -1: unknown, or see near_domains
  std::vector<int> near_domains;  ///< as in Gpu
  PciPath path;
  NicKind kind = NicKind::unknown;
  std::optional<bool> up;               ///< port active; unset: unknown
  int rate_gbps = 0;                    ///< 0: unknown
  std::vector<std::string> interfaces;  ///< its network interfaces
  std::string bond;                     ///< the bond of one of its interfaces; empty: none
  bool default_route = false;           ///< one of its interfaces carries the node's default route
  bool leftover_vf = false;  ///< an SR-IOV virtual function; its physical function is on this node too

  bool usable = true;  ///< set by choose_nics() together with reason
  std::string reason;  ///< why it is usable or not, for display

  /// "mlx5_0"; the PCI address if the name is unknown.
  std::string label() const;
};

struct Node {
  std::string source;  ///< "live", or the file's path
  std::string host;    ///< empty: unknown
  std::vector<Core> cores;
  std::vector<NumaDomain> domains;  ///< ascending by id
  std::vector<Gpu> gpus;            ///< ascending by PCI address
  std::vector<Nic> nics;            ///< ascending by PCI address, then by name in natural order, then by port
  std::vector<std::string> notes;   ///< what the reader left out or could not determine; one line each

  CpuSet cpus() const;
  const NumaDomain* find_domain(int id) const;  ///< nullptr: no such domain
  const Gpu* find_gpu(const PciAddress& pci) const;
  /// NUMA distance between two domain ids (10 local; without a matrix 10 or 20). An unknown id (-1) is 20
  /// from everything.
  int domain_distance(int from, int to) const;
};

/// The distance of two devices, each near to some NUMA domains (empty: unknown). Pure.
Distance device_distance(const PciPath& a, const std::vector<int>& near_a, const PciPath& b,
                         const std::vector<int>& near_b);
/// The same for devices that are near to one domain each; -1: unknown.
Distance device_distance(const PciPath& a, int domain_a, const PciPath& b, int domain_b);

/// Sets domain and near_domains of a Gpu or Nic from the domains that a reader found it to be near to. A
/// device that is near to all of several processors' domains has no locality.
void set_near_domains(const Node& node, const std::vector<int>& near, int& domain,
                      std::vector<int>& near_domains);

/// Adds a note about AMD GPUs, which Muster does not place: CUDA and NCCL are NVIDIA's.
void note_amd_gpus(Node& node, int amd_gpus);

/// Adds a note about domains with hidden CPUs.
void note_hidden_cpus(Node& node);

/// Brings a freshly read node into canonical order (see the members) and decides which NICs are usable, so
/// that the result does not depend on the order in which the machine lists its devices. A domain gets the
/// CPUs of its cores and no others. Every reader calls it last.
void finish(Node& node);

/// Sets usable and reason of every NIC. It excludes ports that are down, Ethernet ports on a node that has
/// InfiniBand, EFA or Slingshot, RoCE ports that are slower than the node's fastest, RoCE ports with the
/// default route if there are others, bonded ports, SR-IOV leftovers, usNIC and Azure's
/// accelerated-networking devices.
void choose_nics(std::vector<Nic>& nics);

}  // namespace muster::placement
