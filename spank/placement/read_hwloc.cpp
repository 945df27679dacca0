// SPDX-License-Identifier: Apache-2.0
#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "placement/error.hpp"
#include "placement/read.hpp"
#include "placement/read_xml_text.hpp"
#include "placement/sysfs.hpp"

namespace muster::placement {

namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

constexpr unsigned nvidia = 0x10de;
constexpr unsigned amazon = 0x1d0f;
constexpr unsigned cray = 0x17db;  // Slingshot

/// A topology that is ready to be given its source.
Topology prepare() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("hwloc cannot be initialised: out of memory?");
  Topology topology(raw, &hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  // These start GPU drivers, which takes seconds and may hang; the PCI bus tells all that is needed. "pci"
  // reads it through libpciaccess, which leaks; without it hwloc reads it from sysfs itself.
  for (const char* component : {"pci", "gl", "opencl", "cuda", "nvml", "rsmi", "levelzero"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  return topology;
}

const char* info(hwloc_obj_t object, const std::string& name) {
  return hwloc_obj_get_info_by_name(object, name.c_str());
}

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (bitmap == nullptr) return set;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0 && cpu < CpuSet::limit;
       cpu = hwloc_bitmap_next(bitmap, cpu)) {
    set.add(cpu);
  }
  return set;
}

bool is_gpu_memory(hwloc_obj_t object) {
  return object->subtype != nullptr && std::string(object->subtype) == "GPUMemory";
}

/// The NUMA object that a core's own memory is. Where several memories serve the same cores, a GPU's comes
/// last and otherwise the one with the lowest number is the ordinary one.
hwloc_obj_t own_domain(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
  hwloc_obj_t best = nullptr;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    if (!hwloc_bitmap_isincluded(cpus, object->cpuset)) continue;
    const auto rank = [](hwloc_obj_t o) { return std::pair(is_gpu_memory(o), o->os_index); };
    if (best == nullptr || rank(object) < rank(best)) best = object;
  }
  return best;
}

void read_domains(hwloc_topology_t topology, Node& node) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    NumaDomain domain;
    domain.id = static_cast<int>(object->os_index);
    domain.memory_bytes = object->attr->numanode.local_memory;
    domain.gpu_memory = is_gpu_memory(object);
    node.domains.push_back(std::move(domain));
  }
}

/// Distances as the operating system gives them, if they cover all domains.
void read_distances(hwloc_topology_t topology, Node& node) {
  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  if (hwloc_distances_get_by_name(topology, "NUMALatency", &count, &distances, 0) != 0 || count < 1) return;
  const auto size = static_cast<std::size_t>(distances->nbobjs);
  if (size == node.domains.size()) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        const auto at = [&](std::size_t k) {
          return std::find_if(node.domains.begin(), node.domains.end(), [&](const NumaDomain& domain) {
            return distances->objs[k] != nullptr &&
                   domain.id == static_cast<int>(distances->objs[k]->os_index);
          });
        };
        const auto row = at(i);
        const auto column = at(j);
        if (row == node.domains.end() || column == node.domains.end()) continue;
        row->distances.resize(size, 20);
        row->distances[static_cast<std::size_t>(column - node.domains.begin())] =
            static_cast<int>(distances->values[i * size + j]);
      }
    }
  }
  hwloc_distances_release(topology, distances);
}

void read_cores(hwloc_topology_t topology, Node& node) {
  // An export without core objects (a virtual machine, or filtered) still has its hardware threads.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const auto type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    Core core;
    core.cpus = to_cpu_set(object->cpuset);
    if (core.cpus.empty()) continue;
    const auto package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
    core.package = package != nullptr ? static_cast<int>(package->os_index) : 0;
    const auto own = own_domain(topology, object->cpuset);
    core.domain = own != nullptr ? static_cast<int>(own->os_index) : 0;
    for (auto& domain : node.domains) {
      if (domain.id == core.domain) domain.cpus |= core.cpus;
    }
    node.cores.push_back(std::move(core));
  }
}

/// The one domain that a device hangs on; -1 if it hangs higher up, above several domains.
int device_domain(hwloc_topology_t topology, hwloc_obj_t device, const Node& node) {
  const hwloc_obj_t ancestor = hwloc_get_non_io_ancestor_obj(topology, device);
  if (ancestor == nullptr || ancestor->nodeset == nullptr) return -1;
  int found = -1;
  for (const auto& domain : node.domains) {
    if (domain.cpus.empty() || !hwloc_bitmap_isset(ancestor->nodeset, static_cast<unsigned>(domain.id)))
      continue;
    if (found >= 0) return -1;
    found = domain.id;
  }
  return found;
}

/// pci: hwloc's attributes of a PCI device (the type has a name in C only).
template <typename Attributes>
PciAddress address_of(const Attributes& pci) {
  return {pci.domain, pci.bus, pci.dev, pci.func};
}

PciPath path_of(hwloc_obj_t device) {
  PciPath path;
  for (hwloc_obj_t parent = device->parent; parent != nullptr && parent->type == HWLOC_OBJ_BRIDGE;
       parent = parent->parent) {
    const auto& bridge = parent->attr->bridge;
    if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
      path.bridges.insert(path.bridges.begin(), address_of(bridge.upstream.pci));
    } else {
      const PciAddress first{bridge.downstream.pci.domain, bridge.downstream.pci.secondary_bus, 0, 0};
      path.host_bridge = "pci" + first.to_string().substr(0, first.to_string().rfind(':'));
    }
  }
  return path;
}

bool is_gpu(hwloc_obj_t device) {
  const auto& pci = device->attr->pcidev;
  return pci.vendor_id == nvidia && (pci.class_id >> 8) == 0x03;  // display controllers
}

Gpu read_gpu(hwloc_topology_t topology, hwloc_obj_t device, const Node& node) {
  Gpu gpu;
  gpu.pci = address_of(device->attr->pcidev);
  gpu.domain = device_domain(topology, device, node);
  gpu.path = path_of(device);
  if (const char* name = info(device, "PCIDevice")) gpu.model = name;
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE) continue;
    if (const char* uuid = info(child, "NVIDIAUUID")) gpu.uuid = uuid;
    if (const char* model = info(child, "GPUModel")) gpu.model = model;
  }
  return gpu;
}

NicKind kind_of(hwloc_obj_t device, hwloc_obj_t rdma, int port) {
  const auto& pci = device->attr->pcidev;
  if (pci.vendor_id == amazon) return NicKind::efa;
  if (pci.vendor_id == cray) return NicKind::slingshot;
  if (pci.class_id == 0x0207) return NicKind::infiniband;
  // Older adapters have one class for both; only an InfiniBand port gets a local identifier from a subnet
  // manager.
  const char* lid = info(rdma, "Port" + std::to_string(port) + "LID");
  if (lid != nullptr) return std::stoul(lid, nullptr, 0) != 0 ? NicKind::infiniband : NicKind::roce;
  return NicKind::roce;
}

void read_nic(hwloc_topology_t topology, hwloc_obj_t device, hwloc_obj_t rdma, Node& node) {
  Nic nic;
  nic.name = rdma->name != nullptr ? rdma->name : "";
  nic.pci = address_of(device->attr->pcidev);
  nic.domain = device_domain(topology, device, node);
  nic.path = path_of(device);
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    const bool is_interface =
        child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
    if (is_interface && child->name != nullptr) nic.interfaces.emplace_back(child->name);
  }
  bool any_port = false;
  for (int port = 1; port <= 8; ++port) {  // hwloc itself looks at no more
    const char* state = info(rdma, "Port" + std::to_string(port) + "State");
    if (state == nullptr) continue;
    any_port = true;
    Nic one = nic;
    one.port = port;
    one.kind = kind_of(device, rdma, port);
    one.up = to_number(state) == 4;  // IBV_PORT_ACTIVE
    node.nics.push_back(std::move(one));
  }
  if (any_port) return;
  nic.kind = kind_of(device, rdma, 1);
  node.nics.push_back(std::move(nic));
}

void read_devices(hwloc_topology_t topology, Node& node) {
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    if (is_gpu(device)) node.gpus.push_back(read_gpu(topology, device, node));
    for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
      const bool is_rdma =
          child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
      if (is_rdma) read_nic(topology, device, child, node);
    }
  }
}

Node to_node(hwloc_topology_t topology, std::string source) {
  Node node;
  node.source = std::move(source);
  if (const char* host = info(hwloc_get_root_obj(topology), "HostName")) node.host = host;
  read_domains(topology, node);
  read_distances(topology, node);
  read_cores(topology, node);
  if (node.cores.empty() || node.domains.empty()) {
    throw Error(node.source +
                ": the topology has no cores or no NUMA domain; export it anew with lstopo --of xml.");
  }
  read_devices(topology, node);
  finish(node);
  return node;
}

}  // namespace

Node read_hwloc_xml(const std::string& path) {
  const std::string text = read_xml_text(path);
  // hwloc 2.9 crashes on an entity (an export has none), and its limits on nested ones are libxml's.
  if (text.find("<!ENTITY") != std::string::npos)
    throw Error(path +
                ": defines XML entities, which no topology export does; export one with lstopo --of xml.");
  const Topology topology = prepare();
  const int size = static_cast<int>(text.size() + 1);  // with the zero at its end; read_xml_text() limits it
  if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(), size) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw Error(path + ": not an hwloc XML file that hwloc " + std::to_string(HWLOC_API_VERSION >> 16) + "." +
                std::to_string(HWLOC_API_VERSION >> 8 & 0xff) +
                " can read; export one with lstopo --of xml.");
  }
  try {
    return to_node(topology.get(), path);
  } catch (const std::logic_error&) {  // a number in the file that is none
    throw Error(path + ": a port's LID is not a number; export the file anew with lstopo --of xml.");
  }
}

Node read_hwloc_live() {
  const Topology topology = prepare();
  if (hwloc_topology_load(topology.get()) != 0)
    throw Error("hwloc cannot read this machine; is /sys mounted?");
  return to_node(topology.get(), "live (hwloc)");
}

}  // namespace muster::placement
