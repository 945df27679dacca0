// SPDX-License-Identifier: Apache-2.0
#include "placement/read_live_devices.hpp"

#include "placement/error.hpp"
#include "placement/routes.hpp"

namespace muster::placement {

namespace {

const std::string pci_folder = "/sys/bus/pci/devices/";
const std::string driver_folder = "/proc/driver/nvidia/gpus";

/// The value behind "key:" in the driver's information file; empty if absent or "?" (which the driver prints
/// for the UUID of a GPU that nothing has used since boot).
std::string field(const std::string& information, std::string_view key) {
  std::size_t start = 0;
  while (start < information.size()) {
    auto end = information.find('\n', start);
    if (end == std::string::npos) end = information.size();
    std::string_view line = std::string_view(information).substr(start, end - start);
    start = end + 1;
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    line.remove_prefix(key.size() + 1);
    const auto first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    return line.find('?') == std::string_view::npos ? std::string(line) : std::string();
  }
  return {};
}

/// The NUMA domain of a PCI device; -1 if neither numa_node nor the list of local CPUs singles one out.
int device_domain(const Sysfs& sysfs, const std::string& folder, const Node& node) {
  const auto number = sysfs.number(folder + "/numa_node");
  if (number && *number >= 0 && node.find_domain(static_cast<int>(*number)) != nullptr)
    return static_cast<int>(*number);
  CpuSet local;
  if (const auto list = sysfs.list(folder + "/local_cpulist")) {
    local = *list;
  } else if (const auto mask = sysfs.text(folder + "/local_cpus")) {
    try {
      local = CpuSet::parse_mask(*mask);
    } catch (const Error&) {
      return -1;
    }
  }
  if (local.empty()) return -1;
  for (const auto& domain : node.domains) {
    // A device that is near to every CPU of a machine with several domains is near to none in particular.
    if (!domain.cpus.empty() && (local & node.cpus()).is_subset_of(domain.cpus) &&
        local.intersects(domain.cpus)) {
      return domain.id;
    }
  }
  return -1;
}

Gpu read_gpu(const Sysfs& sysfs, const PciAddress& pci, const Node& node) {
  Gpu gpu;
  gpu.pci = pci;
  const std::string folder = pci_folder + pci.to_string();
  gpu.domain = device_domain(sysfs, folder, node);
  if (const auto link = sysfs.link(folder)) gpu.path = parse_device_link(*link);
  return gpu;
}

/// Marks the domain that is the GPU's own memory (Grace, POWER9), which the driver reports.
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
    const std::string folder = driver_folder + "/" + name;
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

void read_bus_gpus(const Sysfs& sysfs, Node& node) {
  for (const auto& name : sysfs.names("/sys/bus/pci/devices")) {
    if (sysfs.text(pci_folder + name + "/vendor") != "0x10de") continue;
    // Display controllers: VGA (0x0300) and 3D (0x0302); the same chip's audio and USB functions are others.
    if (!sysfs.text(pci_folder + name + "/class").value_or("").starts_with("0x03")) continue;
    if (const auto pci = PciAddress::try_parse(name)) node.gpus.push_back(read_gpu(sysfs, *pci, node));
  }
  if (!node.gpus.empty()) node.notes.push_back("No NVIDIA driver is loaded: GPUs were found on the PCI bus");
}

NicKind kind_of(const Sysfs& sysfs, const std::string& device, const std::string& link_layer) {
  if (sysfs.text(device + "/device/vendor") == "0x1d0f") return NicKind::efa;
  if (link_layer == "InfiniBand") return NicKind::infiniband;
  if (link_layer == "Ethernet") return NicKind::roce;
  return NicKind::unknown;
}

/// What the ports of a device have in common.
Nic read_device(const Sysfs& sysfs, const std::string& name, const std::string& folder,
                const std::string& default_route, const Node& node) {
  Nic nic;
  nic.name = name;
  if (const auto link = sysfs.link(folder + "/device")) {
    nic.pci = PciAddress::try_parse(base_name(*link));
  }
  if (nic.pci) {
    const std::string device = pci_folder + nic.pci->to_string();
    nic.domain = device_domain(sysfs, device, node);
    if (const auto link = sysfs.link(device)) nic.path = parse_device_link(*link);
    if (const auto parent = sysfs.link(device + "/physfn"))
      nic.leftover_vf = sysfs.exists(pci_folder + base_name(*parent));
  }
  nic.interfaces = sysfs.names(folder + "/device/net");
  for (const auto& interface : nic.interfaces) {
    if (!default_route.empty() && interface == default_route) nic.default_route = true;
    const auto master = sysfs.link("/sys/class/net/" + interface + "/master");
    if (!master) continue;
    const std::string bond = base_name(*master);
    if (!sysfs.exists("/sys/class/net/" + bond + "/bonding")) continue;
    nic.bond = bond;
    if (!default_route.empty() && bond == default_route) nic.default_route = true;
  }
  return nic;
}

}  // namespace

PciPath parse_device_link(const std::string& link) {
  PciPath path;
  std::size_t start = 0;
  while (start <= link.size()) {
    auto end = link.find('/', start);
    if (end == std::string::npos) end = link.size();
    const std::string part = link.substr(start, end - start);
    start = end + 1;
    if (const auto address = PciAddress::try_parse(part)) {
      path.bridges.push_back(*address);
    } else if (part.starts_with("pci") && part.find(':') != std::string::npos) {
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

void read_live_nics(const Sysfs& sysfs, Node& node) {
  const auto names = sysfs.names("/sys/class/infiniband");
  if (names.empty()) return;
  const std::string default_route = default_route_interface(read_routes(sysfs));
  for (const auto& name : names) {
    const std::string folder = "/sys/class/infiniband/" + name;
    const Nic device = read_device(sysfs, name, folder, default_route, node);
    for (const auto& port : sysfs.names(folder + "/ports")) {
      const auto number = to_number(port);
      if (!number) continue;
      const std::string port_folder = folder + "/ports/" + port;
      Nic nic = device;
      nic.port = static_cast<int>(*number);
      nic.kind = kind_of(sysfs, folder, sysfs.text(port_folder + "/link_layer").value_or(""));
      // "4: ACTIVE", and "400 Gb/sec (4X NDR)"
      if (const auto state = sysfs.text(port_folder + "/state")) nic.up = state->starts_with("4");
      if (const auto rate = sysfs.text(port_folder + "/rate")) {
        nic.rate_gbps = static_cast<int>(to_number(rate->substr(0, rate->find_first_of(" ."))).value_or(0));
      }
      node.nics.push_back(std::move(nic));
    }
  }
}

}  // namespace muster::placement
