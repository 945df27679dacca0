// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::placement {

/// The network interface through which this node reaches a host, as the kernel decides (IPv4 and IPv6, policy
/// routing included). Connects a UDP socket, which sends no packet, to each of the host's addresses until one
/// route leaves the node. The name is resolved in the usual way, but only one name server is queried, once,
/// with a timeout of one second. Empty: the name is unknown, or the only route is loopback. Not thread-safe.
std::string route_interface(const std::string& host);

/// The network interface through which this node reaches a peer, from /proc/net/route below root.
/// peer_ipv4: the dotted address of another node of the job; empty: unknown, then the default route counts.
/// Without a matching route: the interface that is up and is neither loopback nor created by a container or
/// virtual machine tool (docker, virbr, veth, cni …), if there is exactly one. Empty: none found. Throws
/// Error if peer_ipv4 is not an address.
std::string route_interface_from_proc(const std::string& peer_ipv4, const std::string& root = "/");

}  // namespace muster::placement
