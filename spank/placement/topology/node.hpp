// SPDX-License-Identifier: Apache-2.0
// The model of one host's hardware: plain data, filled by the readers (read.hpp) and by tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/topology/cpu_set.hpp"
#include "placement/topology/pci_address.hpp"

namespace muster::placement {

/// How far two things on a node are apart, in the terms of `nvidia-smi topo -m`, nearest first.
enum class Distance {
  pix,      ///< within one PCI switch (or below one bridge)
  pxb,      ///< through several PCI switches, not through a host bridge
  phb,      ///< through one PCI host bridge
  node,     ///< between host bridges of one NUMA domain; for cores: on the domain
  sys,      ///< between NUMA domains
  unknown,  ///< the machine does not say
};

/// "PIX", "PXB", "PHB", "NODE", "SYS" or "unknown".
const char* to_string(Distance distance);

/// One processor core and its hardware threads, as operating system CPU numbers.
struct Core {
  int package = 0;
  int domain = 0;  ///< id of the NUMA domain it belongs to
  CpuSet cpus;
};

/// One NUMA domain. A domain of memory alone (a GPU's on Grace and POWER9, CXL) is chosen for a task's memory
/// only where there is no other.
struct NumaDomain {
  int id = 0;                                 ///< the operating system's number; need not be contiguous
  CpuSet cpus;                                ///< empty for memory-only domains
  std::optional<std::uint64_t> memory_bytes;  ///< unset: unknown
  bool gpu_memory = false;                    ///< the memory of a GPU
  bool cpus_hidden =
      false;  ///< it has CPUs that the source does not show: cpus is empty, its memory ordinary
  std::vector<int> distances;  ///< to domains[i] of the node (10 = local, as in ACPI's SLIT); empty: unknown
};

/// The way from a device up to the processor.
struct PciPath {
  std::string host_bridge;  ///< names the host bridge, e.g. "pci0000:00"; empty: unknown
  std::vector<PciAddress>
      bridges;  ///< PCI bridges, the one next to the host bridge first. A switch counts as two: up and down
};

struct Gpu {
  PciAddress pci;
  int domain = -1;                ///< NUMA domain id; -1: the machine does not say, or see near_domains
  std::vector<int> near_domains;  ///< ids of several domains, but not all, that it is equally near to (a
                                  ///< package that is split into domains); empty otherwise
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
  std::string name;  ///< RDMA device, e.g. "mlx5_0"; empty: the source does not name it
  int port = 1;
  std::optional<PciAddress> pci;
  int domain = -1;                ///< NUMA domain id; -1: the machine does not say, or see near_domains
  std::vector<int> near_domains;  ///< as of a Gpu
  PciPath path;
  NicKind kind = NicKind::unknown;
  std::optional<bool> up;               ///< port active; unset: unknown
  int rate_gbps = 0;                    ///< 0: unknown
  std::vector<std::string> interfaces;  ///< its network interfaces
  std::string bond;                     ///< the bond that one of its interfaces belongs to; empty: none
  bool default_route = false;           ///< the node's default route goes through one of its interfaces
  bool leftover_vf = false;  ///< an SR-IOV virtual function whose physical function is on this node too

  bool usable = true;  ///< set by choose_nics() together with reason
  std::string reason;  ///< why it is or is not usable, in words

  /// "mlx5_0"; the PCI address where the name is unknown.
  std::string label() const;
};

struct Node {
  std::string source;  ///< where this came from: "live", or the file's path
  std::string host;    ///< empty: unknown
  std::vector<Core> cores;
  std::vector<NumaDomain> domains;  ///< ascending by id
  std::vector<Gpu> gpus;            ///< ascending by PCI address
  std::vector<Nic> nics;            ///< ascending by PCI address, then by name in natural order, then by port
  std::vector<std::string> notes;   ///< what the reader could not find out, one line each

  CpuSet cpus() const;
  const NumaDomain* find_domain(int id) const;  ///< nullptr: no such domain
  const Gpu* find_gpu(const PciAddress& pci) const;
  /// NUMA distance between two domain ids (10 local; without a matrix 10 or 20). An unknown id (-1) is 20
  /// from everything.
  int domain_distance(int from, int to) const;
};

/// How far apart two devices are, each near to some NUMA domains (empty: unknown). Pure.
Distance device_distance(const PciPath& a, const std::vector<int>& near_a, const PciPath& b,
                         const std::vector<int>& near_b);
/// The same where each is near to one; -1: unknown.
Distance device_distance(const PciPath& a, int domain_a, const PciPath& b, int domain_b);

/// What a reader found a device to be near to, as domain and near_domains of a Gpu or Nic. A device that is
/// near to every processor's domain, of several, is near to none in particular.
void set_near_domains(const Node& node, const std::vector<int>& near, int& domain,
                      std::vector<int>& near_domains);

/// Notes GPUs that are there but not dealt out: CUDA, NCCL and so all of this are NVIDIA's.
void note_other_gpus(Node& node, int amd_gpus);

/// Notes the domains whose CPUs a file leaves out.
void note_hidden_cpus(Node& node);

/// Brings a freshly read node into canonical order (as stated at the members) and decides which NICs are
/// usable, so that the result does not depend on the order in which the machine listed things. A domain has
/// the CPUs of its cores and no others. Every reader ends with it.
void finish(Node& node);

/// Sets usable and reason of every NIC: left out are ports that are down, Ethernet ports on a node that has
/// InfiniBand, RoCE ports slower than the node's fastest or carrying the default route when others are there,
/// bonded ports, SR-IOV leftovers and Azure's accelerated-networking devices.
void choose_nics(std::vector<Nic>& nics);

}  // namespace muster::placement
