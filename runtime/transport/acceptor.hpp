// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/endpoint.hpp"
#include "transport/local_listener.hpp"

namespace muster::control {

/// Accepts connections and keeps them until they are authenticated. Unauthenticated connections are closed
/// after a few seconds; on a UNIX socket, those of other users at once. When the table is full, a new
/// connection evicts a random one, so that a flood mostly evicts itself; an evicted rank retries. Every call
/// but the constructors and port() on the io_context's thread.
class Acceptor {
 public:
  struct PendingConnection {
    explicit PendingConnection(Socket connected)
        : socket(std::move(connected)), timer(socket.get_executor()) {}
    Socket socket;
    asio::steady_timer timer;
    std::size_t index = 0;
    bool released = false;  ///< authenticated or dropped: no longer in this acceptor's table
  };
  using OnConnection = std::function<void(const std::shared_ptr<PendingConnection>& connection)>;

  /// Listens on the first free port of `ports` (0: the system's choice), on every interface, IPv6 and IPv4.
  /// @throws Error(ErrorCode::system) when no port is free.
  Acceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports);
  /// Listens on the first of local_endpoints(name) that no other user holds. Waits up to a second for holders
  /// that do not listen yet.
  /// @throws Error(ErrorCode::system) when other users hold all of them, or another process of this user
  /// holds that one.
  Acceptor(asio::io_context& io, const std::string& name);
  /// Takes over the listener's socket.
  Acceptor(asio::io_context& io, LocalListener& listener);

  /// 0 for a UNIX socket.
  std::uint16_t port() const { return port_; }

  void open(std::size_t limit, OnConnection on_connection);
  bool is_open() const { return acceptor_.is_open(); }
  void close();
  /// Accepts no more connections, but keeps the port: it shows that this process runs.
  void stop();

  /// Removes an authenticated connection from the table, without closing it.
  void release(PendingConnection& connection);
  /// Closes the connection.
  void drop(const std::shared_ptr<PendingConnection>& connection);

 private:
  void listen(const Endpoint& endpoint, bool reuse);
  bool listen_unless_held(asio::io_context& io, const Endpoint& endpoint, const Deadline& deadline);
  void listen_on(std::uint16_t port);
  void accept();
  void on_accept(Socket socket);
  void evict_random();

  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  asio::steady_timer backoff_timer_;
  bool stopped_ = false;
  std::uint16_t port_ = 0;
  std::size_t limit_ = 0;
  OnConnection on_connection_;
  std::vector<std::shared_ptr<PendingConnection>> pending_;
};

}  // namespace muster::control
