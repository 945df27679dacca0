// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::control {

/// A stream between two processes: TCP between hosts, a UNIX socket inside one.
using Socket = asio::generic::stream_protocol::socket;
using Endpoint = asio::generic::stream_protocol::endpoint;

Endpoint tcp_endpoint(const asio::ip::address& address, std::uint16_t port);

/// The same address with another port.
Endpoint with_port(const Endpoint& endpoint, std::uint16_t port);

/// A UNIX socket in Linux's abstract namespace (unix(7)): it is no file, and ends with the process. A name
/// over 100 bytes is cut and completed by its hash.
Endpoint local_endpoint(const std::string& name);

/// Where to listen under a name that others can guess: the name's own socket, and a few more for when other
/// users hold that one.
std::vector<Endpoint> local_endpoints(const std::string& name);

bool is_local(const Endpoint& endpoint);

/// "10.66.0.10 port 23456" or "UNIX socket @name".
std::string name_of(const Endpoint& endpoint);

/// True for TCP. On a UNIX socket: whether the process at the other end belongs to this one's user, as the
/// kernel says (SO_PEERCRED, unix(7)).
bool is_own_user(Socket& socket);

/// Programs that this process starts do not inherit the socket: one that outlives the process would keep the
/// connection open, and the others would not see that the process ended.
void close_on_exec(int socket);

}  // namespace muster::control
