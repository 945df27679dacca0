// SPDX-License-Identifier: Apache-2.0
#include "control/endpoint.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace muster::control {

Endpoint tcp_endpoint(const asio::ip::address& address, std::uint16_t port) {
  return asio::ip::tcp::endpoint(address, port);
}

Endpoint local_endpoint(const std::string& name) {
  return asio::local::stream_protocol::endpoint(std::string(1, '\0') + name);
}

bool is_local(const Endpoint& endpoint) { return endpoint.protocol().family() == AF_UNIX; }

namespace {

asio::ip::tcp::endpoint to_tcp(const Endpoint& endpoint) {
  asio::ip::tcp::endpoint tcp;
  std::memcpy(tcp.data(), endpoint.data(), std::min(endpoint.size(), tcp.capacity()));
  return tcp;
}

}  // namespace

Endpoint with_port(const Endpoint& endpoint, std::uint16_t port) {
  auto tcp = to_tcp(endpoint);
  tcp.port(port);
  return tcp;
}

std::string name_of(const Endpoint& endpoint) {
  if (is_local(endpoint)) {
    asio::local::stream_protocol::endpoint local;
    std::memcpy(local.data(), endpoint.data(), endpoint.size());
    local.resize(endpoint.size());
    auto const path = local.path();
    return "UNIX socket @" + (path.empty() ? path : path.substr(1));
  }
  auto const tcp = to_tcp(endpoint);
  return fmt::format("{} port {}", tcp.address().to_string(), tcp.port());
}

bool is_own_user(Socket& socket) {
  int family = 0;
  socklen_t length = sizeof family;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_DOMAIN, &family, &length) != 0) return false;
  if (family != AF_UNIX) return true;
  ucred peer{};
  length = sizeof peer;
  return ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace muster::control
