// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::placement {

/// The network interface through which this node reaches a host, by the kernel's own decision (IPv4 and IPv6,
/// policy routing included): a UDP socket is connected to each of the host's addresses, which sends no
/// packet, until one leads out of the node. The name is looked up as any program's, but a name server that
/// does not answer is asked once and waited for one second. Empty: the name is not known, or no route leads
/// there but over loopback. For one thread at a time.
std::string socket_interface_towards(const std::string& host);

/// The network interface through which this node reaches a peer, from /proc/net/route below root.
/// peer_ipv4: dotted, the address of another node of the job; empty: unknown, then the default route counts.
/// Without a route that fits, the one interface that is up and is neither loopback nor made by a container or
/// virtual machine tool (docker, virbr, veth, cni …), if there is exactly one. Empty: none found. Throws
/// Error if peer_ipv4 is no address.
std::string socket_interface_to(const std::string& peer_ipv4, const std::string& root = "/");

}  // namespace muster::placement
