// SPDX-License-Identifier: Apache-2.0
// The ports of RDMA devices and Slingshot adapters of the running machine.
#include <algorithm>

#include "placement/topology/live/ip_routes.hpp"
#include "placement/topology/live/read_live_devices.hpp"

namespace muster::placement {

namespace {

NicKind nic_kind(const Sysfs& sysfs, const std::string& device, const std::string& link_layer) {
  if (sysfs.text(device + "/device/vendor") == "0x1d0f") return NicKind::efa;
  if (link_layer == "InfiniBand") return NicKind::infiniband;
  if (link_layer == "Ethernet") return NicKind::roce;
  return NicKind::unknown;
}

/// The properties that all ports of a device share.
Nic read_device(const Sysfs& sysfs, const std::string& name, const std::string& folder,
                const std::string& default_route, const Node& node) {
  Nic nic;
  nic.name = name;
  if (const auto link = sysfs.link(folder + "/device")) {
    nic.pci = PciAddress::try_parse(base_name(*link));
  }
  if (nic.pci) {
    const std::string device = pci_folder + nic.pci->to_string();
    read_locality(sysfs, device, node, nic.domain, nic.near_domains);
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

/// Slingshot adapters. They have a device class of their own, and libfabric uses the same names (libcxi reads
/// cxi_user).
void read_slingshot(const Sysfs& sysfs, const std::string& default_route, Node& node) {
  for (const std::string kind : {"/sys/class/cxi/", "/sys/class/cxi_user/"}) {
    for (const auto& name : sysfs.names(kind)) {
      const bool known = std::any_of(node.nics.begin(), node.nics.end(),
                                     [&](const Nic& other) { return other.name == name; });
      if (known) continue;
      Nic nic = read_device(sysfs, name, kind + name, default_route, node);
      nic.kind = NicKind::slingshot;
      for (const auto& interface : nic.interfaces) {
        const auto state = sysfs.text("/sys/class/net/" + interface + "/operstate").value_or("");
        if (state == "up" || state == "down") nic.up = state == "up";
      }
      node.nics.push_back(std::move(nic));
    }
  }
}

void read_rdma(const Sysfs& sysfs, const std::string& default_route, Node& node) {
  for (const auto& name : sysfs.names("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    const Nic device = read_device(sysfs, name, folder, default_route, node);
    for (const auto& port : sysfs.names(folder + "/ports")) {
      const auto number = to_number(port);
      if (!number) continue;
      const std::string port_folder = folder + "/ports/" + port;
      Nic nic = device;
      nic.port = static_cast<int>(*number);
      nic.kind = nic_kind(sysfs, folder, sysfs.text(port_folder + "/link_layer").value_or(""));
      // "4: ACTIVE", and "400 Gb/sec (4X NDR)"
      if (const auto state = sysfs.text(port_folder + "/state")) nic.up = state->starts_with("4");
      if (const auto rate = sysfs.text(port_folder + "/rate")) {
        nic.rate_gbps = static_cast<int>(to_number(rate->substr(0, rate->find_first_of(" ."))).value_or(0));
      }
      node.nics.push_back(std::move(nic));
    }
  }
}

}  // namespace

void read_live_nics(const Sysfs& sysfs, Node& node) {
  const std::string default_route = default_route_interface(read_routes(sysfs));
  read_rdma(sysfs, default_route, node);
  read_slingshot(sysfs, default_route, node);
}

}  // namespace muster::placement
