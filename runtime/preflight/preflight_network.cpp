// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "preflight/preflight.hpp"
#include "roster/rank_list.hpp"

namespace muster::bootstrap {
namespace {

std::string variable_of(const HostInventory& around, const char* name) {
  auto const found = around.variables.find(name);
  return found == around.variables.end() ? "" : found->second;
}

// The bits of an address that name its subnet; empty for what is none.
std::string subnet_of(const Interface& interface) {
  std::array<unsigned char, 16> bytes{};
  int const family = interface.address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (inet_pton(family, interface.address.c_str(), bytes.data()) != 1) return "";
  int const bits = std::clamp(interface.prefix, 0, family == AF_INET ? 32 : 128);
  for (int bit = bits; bit < 128; ++bit)
    bytes[static_cast<std::size_t>(bit / 8)] &= static_cast<unsigned char>(~(0x80u >> (bit % 8)));
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, bytes.data(), text.data(), text.size());
  return fmt::format("{}/{}", text.data(), bits);
}

bool leaves_the_host(const Interface& interface) {
  const auto& address = interface.address;
  return !address.starts_with("127.") && address != "::1";
}

// The first rank of each host, which read what the host has. Fewer than two: nobody to be reached.
std::vector<const JoinRecord*> hosts_of(const std::vector<JoinRecord>& records) {
  std::vector<const JoinRecord*> hosts;
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& record : records) {
    if (!record.inventory.nccl || !record.inventory.local_first) continue;
    if (seen.emplace(record.hello.host, record.hello.boot_id).second) hosts.push_back(&record);
  }
  return hosts;
}

std::vector<int> ranks_of(const std::vector<const JoinRecord*>& hosts) {
  std::vector<int> ranks;
  for (const JoinRecord* host : hosts) ranks.push_back(host->hello.rank);
  return ranks;
}

std::string name_with_address(const Interface& interface) {
  return fmt::format("{} ({}/{})", interface.name, interface.address, interface.prefix);
}

const char* const interface_fix = "set NCCL_SOCKET_IFNAME to the interface that reaches the other hosts";

// Whose interface is in no subnet with the others', where those have one together. Each in its own is a
// routed network.
void check_subnets(const std::vector<const JoinRecord*>& hosts, const std::vector<Hello>& roster,
                   std::vector<Finding>& findings) {
  std::map<std::string, std::vector<const JoinRecord*>> subnets;
  for (const JoinRecord* host : hosts)
    subnets[subnet_of(*socket_interface_of(host->inventory))].push_back(host);
  auto const most = std::max_element(subnets.begin(), subnets.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (subnets.size() < 2 || most->second.size() * 2 <= hosts.size()) return;
  for (const auto& [subnet, outside] : subnets) {
    if (subnet == most->first) continue;
    findings.push_back(
        {false, "socket interface",
         fmt::format("NCCL would take {} on the host of {}, which is not in the others' subnet {}",
                     name_with_address(*socket_interface_of(outside.front()->inventory)),
                     format_ranks(roster, ranks_of(outside)), most->first),
         interface_fix});
  }
}

// Adapters that carry what both ends speak: link layer, and on InfiniBand the subnet.
std::set<std::string> fabrics_of(const HostInventory& around) {
  std::set<std::string> fabrics;
  for (const RdmaPort* adapter : usable_adapters_of(around)) {
    fabrics.insert(adapter->subnet.empty() ? adapter->link_layer
                                           : adapter->link_layer + " subnet " + adapter->subnet);
  }
  return fabrics;
}

std::string joined(const std::set<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

void check_adapter_counts(const std::vector<const JoinRecord*>& hosts, const std::vector<Hello>& roster,
                          std::vector<Finding>& findings) {
  std::map<std::size_t, std::vector<const JoinRecord*>> counts;
  for (const JoinRecord* host : hosts) counts[usable_adapters_of(host->inventory).size()].push_back(host);
  if (counts.size() < 2) return;
  // From the largest count on: of two hosts the one that lacks some stands out.
  auto const most = std::max_element(counts.rbegin(), counts.rend(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  // A host without one would use sockets while the others wait for it on InfiniBand or RoCE.
  std::size_t const usual = most->first == 0 ? counts.rbegin()->first : most->first;
  for (const auto& [count, some] : counts) {
    if (count == usual) continue;
    std::string down;
    for (const auto& adapter : some.front()->inventory.adapters)
      if (!adapter.up)
        down += fmt::format("{}{}:{}", down.empty() ? ", down: " : ",", adapter.name, adapter.port);
    findings.push_back(
        {count == 0, "RDMA adapters",
         fmt::format("NCCL can use {} RDMA adapters on the host of {} and {} on the others{}", count,
                     format_ranks(roster, ranks_of(some)), usual, down),
         count == 0
             ? "bring the adapters up (ibstat), drain the node, or use sockets everywhere (NCCL_NET=Socket)"
             : "bring the adapters up (ibstat) or drain the node: the job goes at its pace"});
  }
}

}  // namespace

bool in_nccl_list(const std::string& list, const std::string& name, int port) {
  std::string_view rest = list;
  bool const without = rest.starts_with('^');
  if (without) rest.remove_prefix(1);
  bool const exact = rest.starts_with('=');
  if (exact) rest.remove_prefix(1);
  bool found = false;
  while (!rest.empty()) {
    auto item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    auto const colon = item.find(':');
    auto const wanted = colon == std::string_view::npos ? std::string_view() : item.substr(colon + 1);
    item = item.substr(0, colon);
    if (item.empty()) continue;
    bool const fits = exact ? name == item : std::string_view(name).starts_with(item);
    found = found || (fits && (wanted.empty() || port < 0 || wanted == std::to_string(port)));
  }
  return found != without;
}

const Interface* socket_interface_of(const HostInventory& around) {
  auto const wished = variable_of(around, "NCCL_SOCKET_IFNAME");
  auto const family = variable_of(around, "NCCL_SOCKET_FAMILY");
  auto const first = [&](const std::string& list) -> const Interface* {
    for (const auto& interface : around.interfaces) {
      bool const ipv6 = interface.address.find(':') != std::string::npos;
      if ((family == "AF_INET" && ipv6) || (family == "AF_INET6" && !ipv6)) continue;
      if (in_nccl_list(list, interface.name)) return &interface;
    }
    return nullptr;
  };
  if (!wished.empty()) return first(wished);
  for (const char* list : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
    if (const auto* found = first(list)) return found;
  }
  return nullptr;
}

std::vector<const RdmaPort*> usable_adapters_of(const HostInventory& around) {
  std::vector<const RdmaPort*> usable;
  auto const wished = variable_of(around, "NCCL_IB_HCA");
  if (variable_of(around, "NCCL_IB_DISABLE") == "1") return usable;
  for (const auto& adapter : around.adapters) {
    if (!adapter.up || (adapter.link_layer != "InfiniBand" && adapter.link_layer != "Ethernet")) continue;
    if (wished.empty() || in_nccl_list(wished, adapter.name, adapter.port)) usable.push_back(&adapter);
  }
  return usable;
}

void check_interfaces(const std::vector<JoinRecord>& records, std::vector<Finding>& findings) {
  auto const all = hosts_of(records);
  if (all.size() < 2) return;
  auto const roster = roster_of(records);
  std::vector<const JoinRecord*> hosts;
  std::map<std::string, std::vector<const JoinRecord*>> addresses;
  std::vector<int> inside;
  for (const JoinRecord* host : all) {
    const auto* const interface = socket_interface_of(host->inventory);
    if (interface == nullptr) {
      auto const wished = variable_of(host->inventory, "NCCL_SOCKET_IFNAME");
      findings.push_back({true, "socket interface",
                          fmt::format("the host of {} has no interface that is up{}",
                                      format_ranks(roster, {host->hello.rank}),
                                      wished.empty() ? "" : " and fits NCCL_SOCKET_IFNAME=" + wished),
                          interface_fix});
      continue;
    }
    if (leaves_the_host(*interface)) {
      hosts.push_back(host);
      addresses[interface->address].push_back(host);
    } else {
      inside.push_back(host->hello.rank);
    }
  }
  if (!inside.empty()) {
    findings.push_back(
        {true, "socket interface",
         fmt::format("NCCL would take the loopback interface on the host of {}, by which no other "
                     "host is reached",
                     format_ranks(roster, inside)),
         interface_fix});
  }
  for (const auto& [address, sharing] : addresses) {
    if (sharing.size() < 2) continue;
    findings.push_back({true, "socket interface",
                        fmt::format("NCCL would take {} on the hosts of {}, which have the same address",
                                    name_with_address(*socket_interface_of(sharing.front()->inventory)),
                                    format_ranks(roster, ranks_of(sharing))),
                        interface_fix});
  }
  if (!hosts.empty()) check_subnets(hosts, roster, findings);
}

void check_adapters(const std::vector<JoinRecord>& records, std::vector<Finding>& findings) {
  auto const hosts = hosts_of(records);
  if (hosts.size() < 2) return;
  auto const net = variable_of(hosts.front()->inventory, "NCCL_NET");
  if (!net.empty() && net != "IB") return;  // sockets, or a plugin with devices of its own
  auto const roster = roster_of(records);
  check_adapter_counts(hosts, roster, findings);
  std::map<std::string, std::size_t> popularity;
  for (const JoinRecord* host : hosts)
    for (const auto& fabric : fabrics_of(host->inventory)) ++popularity[fabric];
  if (popularity.empty()) return;
  auto const most = std::max_element(popularity.begin(), popularity.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second * 2 <= hosts.size()) return;
  std::vector<const JoinRecord*> outside;
  for (const JoinRecord* host : hosts) {
    auto const fabrics = fabrics_of(host->inventory);
    if (!fabrics.empty() && !fabrics.contains(most->first)) outside.push_back(host);
  }
  if (outside.empty()) return;
  findings.push_back({false, "RDMA adapters",
                      fmt::format("the adapters on the host of {} are on {}, the others' on {}",
                                  format_ranks(roster, ranks_of(outside)),
                                  joined(fabrics_of(outside.front()->inventory)), most->first),
                      "check cables, the subnet manager and NCCL_IB_HCA"});
}

}  // namespace muster::bootstrap
