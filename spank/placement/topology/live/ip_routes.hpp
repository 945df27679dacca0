// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "placement/topology/live/sysfs.hpp"

namespace muster::placement {

/// One line of /proc/net/route; addresses in network byte order, as the kernel prints them.
struct Route {
  std::string interface;
  std::uint32_t destination = 0;
  std::uint32_t mask = 0;
  std::uint32_t flags = 0;
  std::uint32_t metric = 0;
};

/// The IPv4 routes that are up; malformed lines are skipped.
std::vector<Route> read_routes(const Sysfs& sysfs);

/// The interface of the default route with the lowest metric; empty: there is none.
std::string default_route_interface(const std::vector<Route>& routes);

}  // namespace muster::placement
