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

std::string find_variable(const HostInventory& inventory, const char* name) {
  auto const found = inventory.variables.find(name);
  return found == inventory.variables.end() ? "" : found->second;
}

// The subnet of an address; empty when the address is invalid.
std::string format_subnet(const Interface& interface) {
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

bool is_external(const Interface& interface) {
  const auto& address = interface.address;
  return !address.starts_with("127.") && address != "::1";
}

// The first rank of each host, which has read the host's devices. The caller needs at least two of them.
std::vector<const JoinRecord*> first_ranks_of_hosts(const std::vector<JoinRecord>& records) {
  std::vector<const JoinRecord*> hosts;
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& record : records) {
    if (!record.inventory.nccl || !record.inventory.local_first) continue;
    if (seen.emplace(record.hello.host, record.hello.boot_id).second) hosts.push_back(&record);
  }
  return hosts;
}

std::vector<int> list_ranks(const std::vector<const JoinRecord*>& hosts) {
  std::vector<int> ranks;
  for (const JoinRecord* host : hosts) ranks.push_back(host->hello.rank);
  return ranks;
}

std::string describe_interface(const Interface& interface) {
  return fmt::format("{} ({}/{})", interface.name, interface.address, interface.prefix);
}

const char* const interface_fix = "set NCCL_SOCKET_IFNAME to the interface that reaches the other hosts";

// Finds hosts with an interface outside the subnet that most hosts share. If every host is in its own subnet,
// the network is routed.
void check_subnets(const std::vector<const JoinRecord*>& hosts, const std::vector<Hello>& roster,
                   std::vector<Finding>& findings) {
  std::map<std::string, std::vector<const JoinRecord*>> subnets;
  for (const JoinRecord* host : hosts)
    subnets[format_subnet(*find_socket_interface(host->inventory))].push_back(host);
  auto const most = std::max_element(subnets.begin(), subnets.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (subnets.size() < 2 || most->second.size() * 2 <= hosts.size()) return;
  for (const auto& [subnet, outside] : subnets) {
    if (subnet == most->first) continue;
    findings.push_back(
        {false, "socket interface",
         fmt::format("NCCL would take {} on the host of {}, which is not in the others' subnet {}",
                     describe_interface(*find_socket_interface(outside.front()->inventory)),
                     format_ranks(roster, list_ranks(outside)), most->first),
         interface_fix});
  }
}

// Adapters can communicate within one fabric: the link layer, and on InfiniBand also the subnet.
std::set<std::string> list_fabrics(const HostInventory& inventory) {
  std::set<std::string> fabrics;
  for (const RdmaPort* adapter : find_usable_adapters(inventory)) {
    fabrics.insert(adapter->subnet.empty() ? adapter->link_layer
                                           : adapter->link_layer + " subnet " + adapter->subnet);
  }
  return fabrics;
}

std::string join_texts(const std::set<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

void check_adapter_counts(const std::vector<const JoinRecord*>& hosts, const std::vector<Hello>& roster,
                          std::vector<Finding>& findings) {
  std::map<std::size_t, std::vector<const JoinRecord*>> counts;
  for (const JoinRecord* host : hosts) counts[find_usable_adapters(host->inventory).size()].push_back(host);
  if (counts.size() < 2) return;
  // Start at the largest count, so that of two hosts the one with fewer adapters is reported.
  auto const most = std::max_element(counts.rbegin(), counts.rend(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  // A host without an adapter would use sockets while the other hosts wait for it on InfiniBand or RoCE.
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
                     format_ranks(roster, list_ranks(some)), usual, down),
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

const Interface* find_socket_interface(const HostInventory& inventory) {
  auto const configured = find_variable(inventory, "NCCL_SOCKET_IFNAME");
  auto const family = find_variable(inventory, "NCCL_SOCKET_FAMILY");
  auto const first = [&](const std::string& list) -> const Interface* {
    for (const auto& interface : inventory.interfaces) {
      bool const ipv6 = interface.address.find(':') != std::string::npos;
      if ((family == "AF_INET" && ipv6) || (family == "AF_INET6" && !ipv6)) continue;
      if (in_nccl_list(list, interface.name)) return &interface;
    }
    return nullptr;
  };
  if (!configured.empty()) return first(configured);
  for (const char* list : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
    if (const auto* found = first(list)) return found;
  }
  return nullptr;
}

std::vector<const RdmaPort*> find_usable_adapters(const HostInventory& inventory) {
  std::vector<const RdmaPort*> usable;
  auto const configured = find_variable(inventory, "NCCL_IB_HCA");
  if (find_variable(inventory, "NCCL_IB_DISABLE") == "1") return usable;
  for (const auto& adapter : inventory.adapters) {
    if (!adapter.up || (adapter.link_layer != "InfiniBand" && adapter.link_layer != "Ethernet")) continue;
    if (configured.empty() || in_nccl_list(configured, adapter.name, adapter.port))
      usable.push_back(&adapter);
  }
  return usable;
}

void check_interfaces(const std::vector<JoinRecord>& records, std::vector<Finding>& findings) {
  auto const all = first_ranks_of_hosts(records);
  if (all.size() < 2) return;
  auto const roster = make_roster(records);
  std::vector<const JoinRecord*> hosts;
  std::map<std::string, std::vector<const JoinRecord*>> addresses;
  std::vector<int> loopback_ranks;
  for (const JoinRecord* host : all) {
    const auto* const interface = find_socket_interface(host->inventory);
    if (interface == nullptr) {
      auto const configured = find_variable(host->inventory, "NCCL_SOCKET_IFNAME");
      findings.push_back({true, "socket interface",
                          fmt::format("the host of {} has no interface that is up{}",
                                      format_ranks(roster, {host->hello.rank}),
                                      configured.empty() ? "" : " and fits NCCL_SOCKET_IFNAME=" + configured),
                          interface_fix});
      continue;
    }
    if (is_external(*interface)) {
      hosts.push_back(host);
      addresses[interface->address].push_back(host);
    } else {
      loopback_ranks.push_back(host->hello.rank);
    }
  }
  if (!loopback_ranks.empty()) {
    findings.push_back(
        {true, "socket interface",
         fmt::format("NCCL would take the loopback interface on the host of {}, by which no other "
                     "host is reached",
                     format_ranks(roster, loopback_ranks)),
         interface_fix});
  }
  for (const auto& [address, sharing] : addresses) {
    if (sharing.size() < 2) continue;
    findings.push_back({true, "socket interface",
                        fmt::format("NCCL would take {} on the hosts of {}, which have the same address",
                                    describe_interface(*find_socket_interface(sharing.front()->inventory)),
                                    format_ranks(roster, list_ranks(sharing))),
                        interface_fix});
  }
  if (!hosts.empty()) check_subnets(hosts, roster, findings);
}

void check_adapters(const std::vector<JoinRecord>& records, std::vector<Finding>& findings) {
  auto const hosts = first_ranks_of_hosts(records);
  if (hosts.size() < 2) return;
  auto const net = find_variable(hosts.front()->inventory, "NCCL_NET");
  if (!net.empty() && net != "IB") return;  // sockets, or a network plugin with its own devices
  auto const roster = make_roster(records);
  check_adapter_counts(hosts, roster, findings);
  std::map<std::string, std::size_t> popularity;
  for (const JoinRecord* host : hosts)
    for (const auto& fabric : list_fabrics(host->inventory)) ++popularity[fabric];
  if (popularity.empty()) return;
  auto const most = std::max_element(popularity.begin(), popularity.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second * 2 <= hosts.size()) return;
  std::vector<const JoinRecord*> outside;
  for (const JoinRecord* host : hosts) {
    auto const fabrics = list_fabrics(host->inventory);
    if (!fabrics.empty() && !fabrics.contains(most->first)) outside.push_back(host);
  }
  if (outside.empty()) return;
  findings.push_back({false, "RDMA adapters",
                      fmt::format("the adapters on the host of {} are on {}, the others' on {}",
                                  format_ranks(roster, list_ranks(outside)),
                                  join_texts(list_fabrics(outside.front()->inventory)), most->first),
                      "check cables, the subnet manager and NCCL_IB_HCA"});
}

}  // namespace muster::bootstrap
