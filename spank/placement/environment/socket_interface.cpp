// SPDX-License-Identifier: Apache-2.0
#include "placement/environment/socket_interface.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <optional>

#include "placement/topology/error.hpp"
#include "placement/topology/live/ip_routes.hpp"
#include "placement/topology/live/sysfs.hpp"

namespace muster::placement {

namespace {

// RTF_UP and RTF_REJECT of linux/route.h: the route is usable; the route rejects packets.
constexpr std::uint32_t route_up = 0x0001;
constexpr std::uint32_t route_reject = 0x0200;

/// Loopback, and interfaces that container and virtual machine tools create: they do not reach other nodes.
bool is_virtual_interface(const std::string& name) {
  constexpr std::array prefixes = {"docker", "virbr",   "veth", "cni", "podman", "lxc",   "lxd",   "br-",
                                   "cali",   "flannel", "vnet", "tun", "tap",    "dummy", "kube-", "cilium"};
  return name == "lo" || std::any_of(prefixes.begin(), prefixes.end(),
                                     [&](const char* prefix) { return name.starts_with(prefix); });
}

/// The longest matching route to an address, then the lowest metric, as the kernel decides.
const Route* best_route(const std::vector<Route>& routes, std::uint32_t address) {
  const Route* best = nullptr;
  for (const auto& route : routes) {
    if ((address & route.mask) != route.destination || route.interface == "lo") continue;
    if (best == nullptr || std::popcount(route.mask) > std::popcount(best->mask) ||
        (route.mask == best->mask && route.metric < best->metric)) {
      best = &route;
    }
  }
  return best;
}

/// The one interface that could lead to other nodes; empty if there are none or several.
std::string only_interface(const Sysfs& sysfs) {
  std::string found;
  for (const auto& name : sysfs.names("/sys/class/net")) {
    if (is_virtual_interface(name)) continue;
    // hardware reports "up"; virtual pairs and some drivers report "unknown" while they work
    const auto state = sysfs.text("/sys/class/net/" + name + "/operstate");
    if (state != "up" && state != "unknown") continue;
    if (sysfs.exists("/sys/class/net/" + name + "/master")) continue;  // its bond or bridge counts instead
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

}  // namespace

std::vector<Route> read_routes(const Sysfs& sysfs) {
  std::vector<Route> routes;
  const std::string text = sysfs.text("/proc/net/route").value_or("");
  // The first line holds the column titles.
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1)) {
    Route route;
    char interface[64] = "";
    // Not a stream: the first one in a process initialises its whole locale.
    const int fields = std::sscanf(text.c_str() + end + 1, "%63s %x %*x %x %*u %*u %u %x", interface,
                                   &route.destination, &route.flags, &route.metric, &route.mask);
    route.interface = interface;
    if (fields == 5 && (route.flags & route_up) != 0 && (route.flags & route_reject) == 0)
      routes.push_back(std::move(route));
  }
  return routes;
}

std::string default_route_interface(const std::vector<Route>& routes) {
  const Route* best = nullptr;
  for (const auto& route : routes) {
    if (route.mask != 0 || route.destination != 0 || route.interface == "lo") continue;
    if (best == nullptr || route.metric < best->metric) best = &route;
  }
  return best != nullptr ? best->interface : std::string();
}

std::string route_interface_from_proc(const std::string& peer_ipv4, const std::string& root) {
  const Sysfs sysfs(root);
  const auto routes = read_routes(sysfs);
  if (!peer_ipv4.empty()) {
    in_addr address{};
    if (inet_pton(AF_INET, peer_ipv4.c_str(), &address) != 1) {
      throw Error("\"" + peer_ipv4.substr(0, 80) + "\" is not an IPv4 address: write it like 192.0.2.7.");
    }
    // A loopback address means that the peer is this node, which shows no route.
    const bool loopback = (ntohl(address.s_addr) >> 24) == 127;
    if (const Route* route = loopback ? nullptr : best_route(routes, address.s_addr)) return route->interface;
  }
  const std::string by_default = default_route_interface(routes);
  return by_default.empty() ? only_interface(sysfs) : by_default;
}

}  // namespace muster::placement
