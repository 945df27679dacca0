// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/endpoint.hpp"

namespace muster::control {

/// Where connections come in that have not proven anything yet. Who does not do so within a few seconds is
/// cut off; of a UNIX socket's visitors, other users at once. Only so many are kept: beyond that each
/// newcomer pushes out one at random, so that a flood mostly pushes out itself; a rank that it hits comes
/// again. Every call but the constructors and port() on the io_context's thread.
class Acceptor {
 public:
  struct PendingConnection {
    explicit PendingConnection(Socket connected) : socket(std::move(connected)), timer(socket.get_executor()) {}
    Socket socket;
    asio::steady_timer timer;
    std::size_t place = 0;
    bool gone = false;  ///< proven or dropped: not this door's any more
  };
  using OnVisitor = std::function<void(const std::shared_ptr<PendingConnection>& visitor)>;

  /// Listens on the first of the ports that is free (0: the system's choice), on every interface, IPv6 and
  /// IPv4.
  /// @throws Error(ErrorCode::system) when none is.
  Acceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports);
  /// Listens on the first of the local_endpoints() of this name that no other user holds.
  /// @throws Error(ErrorCode::system) when they hold all, or another process of this user's has that one.
  Acceptor(asio::io_context& io, const std::string& name);

  /// 0 for a UNIX socket.
  std::uint16_t port() const { return port_; }

  void open(std::size_t limit, OnVisitor on_visitor);
  bool is_open() const { return acceptor_.is_open(); }
  void close();

  /// The visitor has proven itself: the door lets go of it.
  void forget(PendingConnection& visitor);
  /// Cuts the visitor off.
  void drop(const std::shared_ptr<PendingConnection>& visitor);

 private:
  void listen(const Endpoint& endpoint, bool reuse);
  void listen_on(std::uint16_t port);
  void accept();
  void welcome(Socket socket);
  void drop_any();

  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  asio::steady_timer pause_;
  std::uint16_t port_ = 0;
  std::size_t limit_ = 0;
  OnVisitor on_visitor_;
  std::vector<std::shared_ptr<PendingConnection>> visitors_;
};

}  // namespace muster::control
