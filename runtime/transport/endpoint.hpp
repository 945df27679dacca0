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
/// over 100 bytes is shortened and ends in its hash.
Endpoint local_endpoint(const std::string& name);

/// The sockets for a name that other users can guess: its own one, and a few more in case another user holds
/// that one.
std::vector<Endpoint> local_endpoints(const std::string& name);

bool is_local(const Endpoint& endpoint);

/// "10.66.0.10 port 23456" or "UNIX socket @name".
std::string to_string(const Endpoint& endpoint);

/// True for TCP. On a UNIX socket, true when the peer process belongs to this process's user (SO_PEERCRED,
/// unix(7)).
bool is_own_user(Socket& socket);

/// Keeps programs that this process starts from inheriting the descriptor.
void close_on_exec(int descriptor);

}  // namespace muster::control
