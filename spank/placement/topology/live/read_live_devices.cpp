// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/live/read_live_devices.hpp"

#include "text/split.hpp"

namespace muster::placement {

namespace {

constexpr const char* driver_folder = "/proc/driver/nvidia/gpus";

/// The value after "key:" in the driver's information file; empty if absent or "?", which the driver prints
/// for the UUID of a GPU that nothing has used since boot.
std::string field(const std::string& information, std::string_view key) {
  for (std::string_view line : split(information, '\n')) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    line.remove_prefix(key.size() + 1);
    const auto first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    return line.find('?') == std::string_view::npos ? std::string(line) : std::string();
  }
  return {};
}

Gpu read_gpu(const Sysfs& sysfs, const PciAddress& pci, const Node& node) {
  Gpu gpu;
  gpu.pci = pci;
  const std::string folder = pci_folder + pci.to_string();
  read_locality(sysfs, folder, node, gpu.domain, gpu.near_domains);
  if (const auto link = sysfs.link(folder)) gpu.path = parse_device_link(*link);
  return gpu;
}

/// Marks the domain that the driver reports as the GPU's own memory (Grace, POWER9).
void mark_gpu_memory(const Sysfs& sysfs, const std::string& folder, Node& node) {
  const auto status = sysfs.text(folder + "/numa_status");
  if (!status) return;
  const auto id = to_number(field(*status, "Node"));
  for (auto& domain : node.domains) {
    if (id && domain.id == *id) domain.gpu_memory = true;
  }
}

void read_driver_gpus(const Sysfs& sysfs, Node& node) {
  for (const auto& name : sysfs.names(driver_folder)) {
    const std::string folder = std::string(driver_folder) + "/" + name;
    const std::string information = sysfs.text(folder + "/information").value_or("");
    auto pci = PciAddress::try_parse(field(information, "Bus Location"));
    if (!pci) pci = PciAddress::try_parse(name);
    if (!pci) continue;
    mark_gpu_memory(sysfs, folder, node);
    if (field(information, "GPU Excluded") == "Yes") {
      node.notes.push_back("GPU " + pci->to_string() + " is excluded by the driver and left out");
      continue;
    }
    Gpu gpu = read_gpu(sysfs, *pci, node);
    gpu.uuid = field(information, "GPU UUID");
    gpu.model = field(information, "Model");
    gpu.minor = static_cast<int>(to_number(field(information, "Device Minor")).value_or(-1));
    node.gpus.push_back(std::move(gpu));
  }
}

/// The addresses of a vendor's display controllers: VGA (0x0300), 3D (0x0302) and others (0x0380). A GPU's
/// audio and USB functions have other classes.
std::vector<PciAddress> display_controllers(const Sysfs& sysfs, std::string_view vendor) {
  std::vector<PciAddress> found;
  for (const auto& name : sysfs.names("/sys/bus/pci/devices")) {
    if (sysfs.text(pci_folder + name + "/vendor") != vendor) continue;
    if (!sysfs.text(pci_folder + name + "/class").value_or("").starts_with("0x03")) continue;
    if (const auto pci = PciAddress::try_parse(name)) found.push_back(*pci);
  }
  return found;
}

void read_bus_gpus(const Sysfs& sysfs, Node& node) {
  for (const auto& pci : display_controllers(sysfs, "0x10de"))
    node.gpus.push_back(read_gpu(sysfs, pci, node));
  if (!node.gpus.empty())
    node.notes.emplace_back("No NVIDIA driver is loaded: GPUs were found on the PCI bus");
  if (node.gpus.empty()) note_amd_gpus(node, static_cast<int>(display_controllers(sysfs, "0x1002").size()));
}

}  // namespace

PciPath parse_device_link(const std::string& link) {
  PciPath path;
  for (const auto part : split(link, '/')) {
    if (const auto address = PciAddress::try_parse(part)) {
      path.bridges.push_back(*address);
    } else if (part.starts_with("pci") && part.find(':') != std::string_view::npos) {
      path.host_bridge = part;
      path.bridges.clear();
    }
  }
  if (!path.bridges.empty()) path.bridges.pop_back();  // the device itself
  return path;
}

void read_live_gpus(const Sysfs& sysfs, Node& node) {
  if (sysfs.exists(driver_folder)) {
    read_driver_gpus(sysfs, node);
  } else {
    read_bus_gpus(sysfs, node);
  }
}

void read_locality(const Sysfs& sysfs, const std::string& folder, const Node& node, int& domain,
                   std::vector<int>& near_domains) {
  const auto number = sysfs.number(folder + "/numa_node");
  const NumaDomain* own = number && *number >= 0 ? node.find_domain(static_cast<int>(*number)) : nullptr;
  if (own != nullptr) domain = own->id;
  if (own != nullptr && !own->cpus.empty()) return;
  // A memory-only domain: the device's local CPUs may be more precise.
  auto local = sysfs.list(folder + "/local_cpulist");
  if (!local) local = sysfs.mask(folder + "/local_cpus");
  std::vector<int> near;
  for (const auto& other : node.domains) {
    if (local && other.cpus.intersects(*local)) near.push_back(other.id);
  }
  if (near.empty()) return;
  int of_cpus = -1;
  set_near_domains(node, near, of_cpus, near_domains);
  if (of_cpus >= 0 || !near_domains.empty()) domain = of_cpus;
}

}  // namespace muster::placement
