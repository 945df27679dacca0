// SPDX-License-Identifier: Apache-2.0
#include "transport/endpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace muster::control {

Endpoint tcp_endpoint(const asio::ip::address& address, std::uint16_t port) {
  return asio::ip::tcp::endpoint(address, port);
}

namespace {

// A name too long for sun_path keeps its beginning and ends in its hash.
std::string fit_socket_name(const std::string& name) {
  constexpr std::size_t limit = 100;
  if (name.size() <= limit) return name;
  std::array<std::uint8_t, 16> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(name.data()),
                     name.size(), nullptr, 0);
  return fmt::format("{}/{:02x}", name.substr(0, limit - 33), fmt::join(hash, ""));
}

}  // namespace

Endpoint local_endpoint(const std::string& name) {
  std::string path(1, '\0');
  path += fit_socket_name(name);
  return asio::local::stream_protocol::endpoint(path);
}

std::vector<Endpoint> local_endpoints(const std::string& name) {
  constexpr int count = 8;
  std::vector<Endpoint> endpoints{local_endpoint(name)};
  for (int i = 2; i <= count; ++i) endpoints.push_back(local_endpoint(fmt::format("{}/{}", name, i)));
  return endpoints;
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

std::string to_string(const Endpoint& endpoint) {
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

void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

}  // namespace muster::control
