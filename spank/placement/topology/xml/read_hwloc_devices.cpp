// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/xml/read_hwloc_devices.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "placement/topology/live/sysfs.hpp"

namespace muster::placement {

namespace {

constexpr unsigned nvidia = 0x10de;
constexpr unsigned amd = 0x1002;
constexpr unsigned amazon = 0x1d0f;
constexpr unsigned cray = 0x17db;  // Slingshot

const char* info(hwloc_obj_t object, const std::string& name) {
  return hwloc_obj_get_info_by_name(object, name.c_str());
}

/// Sets a device's domain, or the domains of the object that it is attached to.
template <typename Device>
void read_locality(hwloc_topology_t topology, hwloc_obj_t object, const Node& node, Device& device) {
  const hwloc_obj_t ancestor = hwloc_get_non_io_ancestor_obj(topology, object);
  if (ancestor == nullptr || ancestor->nodeset == nullptr) return;
  std::vector<int> near, hidden;
  for (const auto& domain : node.domains) {
    if (!hwloc_bitmap_isset(ancestor->nodeset, static_cast<unsigned>(domain.id))) continue;
    if (!domain.cpus.empty()) near.push_back(domain.id);
    if (domain.cpus_hidden) hidden.push_back(domain.id);
  }
  set_near_domains(node, near.empty() ? hidden : near, device.domain, device.near_domains);
}

/// pci: hwloc's attributes of a PCI device, a type that has no name in C++.
template <typename Attributes>
PciAddress to_address(const Attributes& pci) {
  return {pci.domain, pci.bus, pci.dev, pci.func};
}

/// Compares bytes: hwloc copies enumeration values from the file unchecked, so `read` may be none of its
/// type's.
template <typename Enumeration>
bool equals(const Enumeration& read, Enumeration value) {
  return std::memcmp(&read, &value, sizeof value) == 0;
}

PciPath read_path(hwloc_obj_t device) {
  PciPath path;
  for (hwloc_obj_t parent = device->parent; parent != nullptr && parent->type == HWLOC_OBJ_BRIDGE;
       parent = parent->parent) {
    const auto& bridge = parent->attr->bridge;
    if (equals(bridge.upstream_type, HWLOC_OBJ_BRIDGE_PCI)) {
      path.bridges.insert(path.bridges.begin(), to_address(bridge.upstream.pci));
    } else {
      const PciAddress first{bridge.downstream.pci.domain, bridge.downstream.pci.secondary_bus, 0, 0};
      path.host_bridge = "pci" + first.to_string().substr(0, first.to_string().rfind(':'));
    }
  }
  return path;
}

bool is_gpu(hwloc_obj_t device, unsigned vendor) {
  const auto& pci = device->attr->pcidev;
  return pci.vendor_id == vendor && (pci.class_id >> 8) == 0x03;  // display controllers
}

Gpu read_gpu(hwloc_topology_t topology, hwloc_obj_t device, const Node& node) {
  Gpu gpu;
  gpu.pci = to_address(device->attr->pcidev);
  read_locality(topology, device, node, gpu);
  gpu.path = read_path(device);
  if (const char* name = info(device, "PCIDevice")) gpu.model = name;
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE) continue;
    if (const char* uuid = info(child, "NVIDIAUUID")) gpu.uuid = uuid;
    if (const char* model = info(child, "GPUModel")) gpu.model = model;
  }
  return gpu;
}

NicKind nic_kind(hwloc_obj_t device, hwloc_obj_t rdma, int port) {
  const auto& pci = device->attr->pcidev;
  if (pci.vendor_id == amazon) return NicKind::efa;
  if (pci.vendor_id == cray) return NicKind::slingshot;
  if (pci.class_id == 0x0207) return NicKind::infiniband;
  // Older adapters have one PCI class for both kinds; only an InfiniBand port gets a local identifier (LID)
  // from a subnet manager.
  const char* lid = info(rdma, "Port" + std::to_string(port) + "LID");
  if (lid != nullptr) return std::stoul(lid, nullptr, 0) != 0 ? NicKind::infiniband : NicKind::roce;
  return NicKind::roce;
}

/// The properties that all ports of a device share.
Nic read_adapter(hwloc_topology_t topology, hwloc_obj_t device, const Node& node) {
  Nic nic;
  nic.pci = to_address(device->attr->pcidev);
  read_locality(topology, device, node, nic);
  nic.path = read_path(device);
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    const bool is_interface =
        child->type == HWLOC_OBJ_OS_DEVICE && equals(child->attr->osdev.type, HWLOC_OBJ_OSDEV_NETWORK);
    if (is_interface && child->name != nullptr) nic.interfaces.emplace_back(child->name);
  }
  return nic;
}

void read_nic(hwloc_topology_t topology, hwloc_obj_t device, hwloc_obj_t rdma, Node& node) {
  Nic nic = read_adapter(topology, device, node);
  nic.name = rdma->name != nullptr ? rdma->name : "";
  bool any_port = false;
  for (int port = 1; port <= 8; ++port) {  // hwloc itself reads at most 8
    const char* state = info(rdma, "Port" + std::to_string(port) + "State");
    if (state == nullptr) continue;
    any_port = true;
    Nic one = nic;
    one.port = port;
    one.kind = nic_kind(device, rdma, port);
    one.up = to_number(state) == 4;  // IBV_PORT_ACTIVE
    node.nics.push_back(std::move(one));
  }
  if (any_port) return;
  nic.kind = nic_kind(device, rdma, 1);
  node.nics.push_back(std::move(nic));
}

}  // namespace

void read_hwloc_devices(hwloc_topology_t topology, Node& node) {
  int amd_gpus = 0;
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    if (is_gpu(device, nvidia)) node.gpus.push_back(read_gpu(topology, device, node));
    if (is_gpu(device, amd)) ++amd_gpus;
    bool has_rdma = false;
    for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
      const bool is_rdma =
          child->type == HWLOC_OBJ_OS_DEVICE && equals(child->attr->osdev.type, HWLOC_OBJ_OSDEV_OPENFABRICS);
      if (is_rdma) read_nic(topology, device, child, node);
      has_rdma = has_rdma || is_rdma;
    }
    const auto& pci = device->attr->pcidev;
    if (pci.vendor_id == cray && (pci.class_id >> 8) == 0x02 && !has_rdma) {
      // hwloc lists a Slingshot adapter's network interface only, not the device that libfabric opens.
      Nic nic = read_adapter(topology, device, node);
      nic.kind = NicKind::slingshot;
      node.nics.push_back(std::move(nic));
    }
  }
  note_amd_gpus(node, amd_gpus);
}

}  // namespace muster::placement
