// SPDX-License-Identifier: Apache-2.0
#include "transport/acceptor.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sodium.h>

#include <chrono>

#include "muster/error.hpp"

namespace muster::control {
namespace {

constexpr std::chrono::seconds proof_time{3};

std::uint16_t port_of(const Endpoint& endpoint) {
  // sockaddr_in and sockaddr_in6 have the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(endpoint.data())->sin_port);
}

bool is_held_by_this_user(asio::io_context& io, const Endpoint& endpoint) {
  Socket socket(io);
  socket.open(endpoint.protocol());
  socket.non_blocking(true);  // nobody need accept
  asio::error_code error;
  socket.connect(endpoint, error);
  return !error && is_own_user(socket);
}

}  // namespace

Acceptor::Acceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports) : acceptor_(io), pause_(io) {
  std::string why = "no port to listen on";
  for (auto const port : ports) {
    try {
      listen_on(port);
      return;
    } catch (const asio::system_error& error) {
      asio::error_code ignored;
      acceptor_.close(ignored);
      why = fmt::format("port {}: {}", port, error.code().message());
    }
  }
  throw Error(ErrorCode::system, fmt::format("rank 0 cannot listen for the other ranks: {}", why));
}

Acceptor::Acceptor(asio::io_context& io, const std::string& name) : acceptor_(io), pause_(io) {
  std::string why;
  for (const auto& endpoint : local_endpoints(name)) {
    try {
      listen(endpoint, false);
      return;
    } catch (const asio::system_error& error) {
      asio::error_code ignored;
      acceptor_.close(ignored);
      why = error.code().message();
      if (error.code() != asio::error::address_in_use || is_held_by_this_user(io, endpoint)) break;
      why += ", by other users, as are the others that were tried";
    }
  }
  throw Error(ErrorCode::system,
              fmt::format("cannot listen on the UNIX socket @{} for the other ranks: {}", name, why));
}

void Acceptor::listen_on(std::uint16_t port) {
  bool const fixed = port != 0;  // a connection of an earlier job may still rest on it
  try {
    listen(asio::ip::tcp::endpoint(asio::ip::tcp::v6(), port), fixed);
  } catch (const asio::system_error& error) {
    if (error.code() == asio::error::address_in_use) throw;
    asio::error_code ignored;
    acceptor_.close(ignored);
    listen(asio::ip::tcp::endpoint(asio::ip::tcp::v4(), port), fixed);  // a kernel without IPv6
  }
  port_ = port_of(acceptor_.local_endpoint());
}

void Acceptor::listen(const Endpoint& endpoint, bool reuse) {
  acceptor_.open(endpoint.protocol());
  close_on_exec(acceptor_.native_handle());
  if (endpoint.protocol().family() == AF_INET6) acceptor_.set_option(asio::ip::v6_only(false));
  if (reuse) acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(asio::socket_base::max_listen_connections);
}

void Acceptor::open(std::size_t limit, OnVisitor on_visitor) {
  limit_ = limit;
  on_visitor_ = std::move(on_visitor);
  accept();
}

void Acceptor::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  while (!visitors_.empty()) drop(visitors_.front());
}

void Acceptor::accept() {
  acceptor_.async_accept([this](const asio::error_code& error, Socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) {
      // Out of descriptors, most likely: a stranger makes room, and a short rest keeps this from
      // spinning.
      if (!visitors_.empty()) drop_any();
      pause_.expires_after(std::chrono::milliseconds(20));
      pause_.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (is_own_user(socket)) welcome(std::move(socket));
    accept();
  });
}

void Acceptor::welcome(Socket socket) {
  if (visitors_.size() >= limit_) drop_any();
  auto visitor = std::make_shared<PendingConnection>(std::move(socket));
  visitor->place = visitors_.size();
  visitors_.push_back(visitor);
  visitor->timer.expires_after(proof_time);
  visitor->timer.async_wait([this, visitor](const asio::error_code& error) {
    if (!error && !visitor->gone) drop(visitor);
  });
  on_visitor_(visitor);
}

void Acceptor::forget(PendingConnection& visitor) {
  visitor.gone = true;
  visitor.timer.cancel();
  auto const place = visitor.place;
  if (place + 1 != visitors_.size()) {
    visitors_[place] = std::move(visitors_.back());
    visitors_[place]->place = place;
  }
  visitors_.pop_back();
}

void Acceptor::drop(const std::shared_ptr<PendingConnection>& given) {
  auto const visitor = given;  // `given` may be the list's own
  if (visitor->gone) return;
  forget(*visitor);
  asio::error_code ignored;
  visitor->socket.close(ignored);
}

void Acceptor::drop_any() { drop(visitors_[randombytes_uniform(static_cast<std::uint32_t>(visitors_.size()))]); }

}  // namespace muster::control
