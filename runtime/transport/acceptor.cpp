// SPDX-License-Identifier: Apache-2.0
#include "transport/acceptor.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sodium.h>

#include <chrono>
#include <thread>

#include "muster/error.hpp"
#include "transport/close_in_children.hpp"

namespace muster::control {
namespace {

constexpr std::chrono::seconds authentication_timeout{3};
// How long other processes may take, together, from bind() to listen(). One that never listens is a stranger.
constexpr std::chrono::milliseconds bind_to_listen_time{1000};

std::uint16_t tcp_port(const Endpoint& endpoint) {
  // sockaddr_in and sockaddr_in6 have the port at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(endpoint.data())->sin_port);
}

enum class Holder { this_user, another_user, unknown };

// Connects to find the user (SO_PEERCRED). Unknown while the holder does not listen, or its backlog is full.
Holder find_holder(asio::io_context& io, const Endpoint& endpoint) {
  Socket socket(io);
  socket.open(endpoint.protocol());
  socket.non_blocking(true);  // connect() must not wait for a full backlog
  asio::error_code error;
  socket.connect(endpoint, error);
  if (error) return Holder::unknown;
  return is_own_user(socket) ? Holder::this_user : Holder::another_user;
}

}  // namespace

Acceptor::Acceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports)
    : acceptor_(io), backoff_timer_(io) {
  std::string why = "no port to listen on";
  for (auto const port : ports) {
    try {
      listen_on(port);
      return;
    } catch (const asio::system_error& error) {
      asio::error_code ignored;
      acceptor_.close(ignored);
      why = port == 0 ? error.code().message() : fmt::format("port {}: {}", port, error.code().message());
    }
  }
  auto text = "cannot listen for the other ranks: " + why;
  if (ports != std::vector<std::uint16_t>{0})
    text += fmt::format("{}: free a port, or choose others (srun --muster or --resv-ports, MUSTER_PORT)",
                        ports.size() > 1 ? fmt::format(", as all {} that were tried", ports.size()) : "");
  throw Error(ErrorCode::system, text);
}

Acceptor::Acceptor(asio::io_context& io, const std::string& name) : acceptor_(io), backoff_timer_(io) {
  std::string why;
  Deadline const deadline(bind_to_listen_time);
  for (const auto& endpoint : local_endpoints(name)) {
    try {
      if (listen_unless_held(io, endpoint, deadline)) return;
      why = "Address already in use, by other users, as are the others that were tried";
    } catch (const asio::system_error& error) {
      why = error.code().message();
      break;
    }
  }
  throw Error(ErrorCode::system,
              fmt::format("cannot listen on the UNIX socket @{} for the other ranks: {}", name, why));
}

Acceptor::Acceptor(asio::io_context& io, LocalListener& listener) : acceptor_(io), backoff_timer_(io) {
  acceptor_.assign(asio::local::stream_protocol(), listener.release());
}

// False when another user holds the endpoint. Throws when this user holds it.
bool Acceptor::listen_unless_held(asio::io_context& io, const Endpoint& endpoint, const Deadline& deadline) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) {
    try {
      listen(endpoint, false);
      return true;
    } catch (const asio::system_error& error) {
      asio::error_code ignored;
      acceptor_.close(ignored);
      if (error.code() != asio::error::address_in_use) throw;
      auto const holder = find_holder(io, endpoint);
      if (holder == Holder::this_user) throw;
      if (holder == Holder::another_user || deadline.passed()) return false;
    }
  }
}

void Acceptor::listen_on(std::uint16_t port) {
  bool const fixed = port != 0;  // a connection of an earlier job may still be in TIME_WAIT
  try {
    listen(asio::ip::tcp::endpoint(asio::ip::tcp::v6(), port), fixed);
  } catch (const asio::system_error& error) {
    if (error.code() == asio::error::address_in_use) throw;
    asio::error_code ignored;
    acceptor_.close(ignored);
    listen(asio::ip::tcp::endpoint(asio::ip::tcp::v4(), port), fixed);  // a kernel without IPv6
  }
  port_ = tcp_port(acceptor_.local_endpoint());
}

void Acceptor::listen(const Endpoint& endpoint, bool reuse) {
  acceptor_.open(endpoint.protocol());
  close_in_children(acceptor_.native_handle());
  if (endpoint.protocol().family() == AF_INET6) acceptor_.set_option(asio::ip::v6_only(false));
  if (reuse) acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(asio::socket_base::max_listen_connections);
}

void Acceptor::open(std::size_t limit, OnConnection on_connection) {
  limit_ = limit;
  on_connection_ = std::move(on_connection);
  accept();
}

void Acceptor::close() {
  stop();
  asio::error_code ignored;
  acceptor_.close(ignored);
}

void Acceptor::stop() {
  stopped_ = true;
  asio::error_code ignored;
  acceptor_.cancel(ignored);
  backoff_timer_.cancel();
  while (!pending_.empty()) drop(pending_.front());
}

void Acceptor::accept() {
  acceptor_.async_accept([this](const asio::error_code& error, Socket socket) {
    if (error == asio::error::operation_aborted || stopped_) return;
    if (error) {
      // Most likely out of descriptors: closing one connection makes room, and the pause prevents
      // spinning.
      if (!pending_.empty()) evict_random();
      backoff_timer_.expires_after(std::chrono::milliseconds(20));
      backoff_timer_.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (is_own_user(socket)) on_accept(std::move(socket));
    accept();
  });
}

void Acceptor::on_accept(Socket socket) {
  if (pending_.size() >= limit_) evict_random();
  auto connection = std::make_shared<PendingConnection>(std::move(socket));
  connection->index = pending_.size();
  pending_.push_back(connection);
  connection->timer.expires_after(authentication_timeout);
  connection->timer.async_wait([this, connection](const asio::error_code& error) {
    if (!error && !connection->released) drop(connection);
  });
  on_connection_(connection);
}

void Acceptor::release(PendingConnection& connection) {
  connection.released = true;
  connection.timer.cancel();
  auto const index = connection.index;
  if (index + 1 != pending_.size()) {
    pending_[index] = std::move(pending_.back());
    pending_[index]->index = index;
  }
  pending_.pop_back();
}

void Acceptor::drop(const std::shared_ptr<PendingConnection>& given) {
  // `given` may refer into pending_.
  auto const connection = given;  // NOLINT(performance-unnecessary-copy-initialization)
  if (connection->released) return;
  release(*connection);
  asio::error_code ignored;
  connection->socket.close(ignored);
}

void Acceptor::evict_random() {
  drop(pending_[randombytes_uniform(static_cast<std::uint32_t>(pending_.size()))]);
}

}  // namespace muster::control
