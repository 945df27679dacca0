// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "placement/topology/node.hpp"

namespace muster::placement {

namespace {

const char* kind_name(NicKind kind) {
  switch (kind) {
    case NicKind::infiniband:
      return "InfiniBand";
    case NicKind::roce:
      return "RoCE";
    case NicKind::efa:
      return "EFA (libfabric)";
    case NicKind::slingshot:
      return "Slingshot (libfabric)";
    case NicKind::ethernet:
      return "Ethernet";
    case NicKind::unknown:
      return "RDMA device of unknown kind";
  }
  return "RDMA device of unknown kind";
}

void exclude(Nic& nic, std::string reason) {
  nic.usable = false;
  nic.reason = std::move(reason);
}

/// Azure's accelerated networking: the virtual function behind the VM's Ethernet interface (named mlx5_anN by
/// Azure's udev rules) and Microsoft's own adapter (mana_N); both carry ordinary traffic, not the InfiniBand
/// fabric.
bool is_azure_accelerated_networking(const std::string& name) {
  return name.starts_with("mlx5_an") || name.starts_with("mana");
}

/// Cisco's usNIC: unreliable datagrams for libfabric in place of RDMA.
bool is_usnic(const std::string& name) { return name.starts_with("usnic"); }

bool is_rdma_ethernet(const Nic& nic) { return nic.kind == NicKind::roce; }

/// mlx5 presents a bond of two RoCE ports as one device, mlx5_bond_N. That device must be used, not the
/// ports.
bool is_bond_device(const std::string& name) { return name.find("bond") != std::string::npos; }

/// Checks that need no other port.
void check_port(Nic& nic) {
  nic.usable = true;
  nic.reason.clear();
  if (nic.kind == NicKind::ethernet) {
    exclude(nic, "no RDMA");
  } else if (is_azure_accelerated_networking(nic.name)) {
    exclude(nic, "Azure accelerated networking, not the RDMA fabric");
  } else if (is_usnic(nic.name)) {
    exclude(nic, "Cisco usNIC, no RDMA");
  } else if (nic.up && !*nic.up) {
    exclude(nic, std::string(kind_name(nic.kind)) + " port is not active");
  } else if (is_rdma_ethernet(nic) && !nic.bond.empty() && !is_bond_device(nic.name)) {
    exclude(nic, "its interface belongs to " + nic.bond);
  } else if (nic.leftover_vf) {
    exclude(nic, "SR-IOV virtual function whose physical function is on this node");
  }
}

void exclude_ethernet_beside_fabric(std::vector<Nic>& nics) {
  const auto has_kind = [&](NicKind kind) {
    return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.kind == kind; });
  };
  // InfiniBand ports count even if all are down: Ethernet does not reach the hosts of that fabric.
  const char* fabric = has_kind(NicKind::infiniband)  ? "InfiniBand"
                       : has_kind(NicKind::efa)       ? "EFA"
                       : has_kind(NicKind::slingshot) ? "Slingshot"
                                                      : nullptr;
  if (fabric == nullptr) return;
  for (auto& nic : nics) {
    if (nic.usable && is_rdma_ethernet(nic)) {
      exclude(nic, std::string("Ethernet port on a node that has ") + fabric);
    }
  }
}

void exclude_slow_roce(std::vector<Nic>& nics) {
  int fastest = 0;
  for (const auto& nic : nics) {
    if (nic.usable && is_rdma_ethernet(nic)) fastest = std::max(fastest, nic.rate_gbps);
  }
  for (auto& nic : nics) {
    if (nic.usable && is_rdma_ethernet(nic) && nic.rate_gbps > 0 && nic.rate_gbps < fastest) {
      exclude(nic, std::to_string(nic.rate_gbps) + " Gb/s Ethernet beside RoCE ports of " +
                       std::to_string(fastest) + " Gb/s");
    }
  }
}

void exclude_default_route(std::vector<Nic>& nics) {
  const bool others = std::any_of(nics.begin(), nics.end(), [](const Nic& nic) {
    return nic.usable && is_rdma_ethernet(nic) && !nic.default_route;
  });
  if (!others) return;
  for (auto& nic : nics) {
    if (nic.usable && is_rdma_ethernet(nic) && nic.default_route) {
      exclude(nic, "Ethernet port that carries the default route");
    }
  }
}

void set_usable_reason(Nic& nic) {
  if (!nic.usable) return;
  nic.reason = std::string(kind_name(nic.kind)) + (nic.up ? ", port active" : ", port state unknown");
}

}  // namespace

void choose_nics(std::vector<Nic>& nics) {
  for (auto& nic : nics) check_port(nic);
  exclude_ethernet_beside_fabric(nics);
  exclude_slow_roce(nics);
  exclude_default_route(nics);
  for (auto& nic : nics) set_usable_reason(nic);
}

}  // namespace muster::placement
