// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "control/handshake.hpp"

namespace muster::control {

/// Where ranks come in at the leader. Who does not prove within a few seconds that it has the job's key is
/// cut off. Of the connections that have not proven anything only a few hundred are kept: beyond that each
/// newcomer pushes out one at random, so that a flood mostly pushes out itself; a rank that it hits comes
/// again. Strangers cost no more than that: nothing they send is kept or interpreted beyond a greeting of
/// fixed length. Every call but the constructor and port() on the io_context's thread.
class Gate {
 public:
  /// The connection is proven to be this rank's.
  using OnRank = std::function<void(int rank, asio::ip::tcp::socket socket, const SessionKeys& keys)>;

  /// Listens on a port of the system's choice, on every interface, IPv6 and IPv4.
  /// @throws Error(Fault::system)
  explicit Gate(asio::io_context& io);
  ~Gate();

  std::uint16_t port() const { return port_; }

  /// Lets ranks 1 … ranks - 1 in.
  void open(int ranks, const Key& key, OnRank on_rank);
  void close();

 private:
  struct Visitor;

  void listen(asio::ip::tcp protocol);
  void accept();
  void greet(const std::shared_ptr<Visitor>& visitor);
  void answer(const std::shared_ptr<Visitor>& visitor);
  void check(const std::shared_ptr<Visitor>& visitor);
  void welcome(const std::shared_ptr<Visitor>& visitor);
  void forget(Visitor& visitor);
  void drop(const std::shared_ptr<Visitor>& visitor);
  void drop_any();

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::uint16_t port_ = 0;
  int ranks_ = 0;
  std::size_t visitor_limit_ = 0;
  Key key_{};
  OnRank on_rank_;
  std::vector<std::shared_ptr<Visitor>> visitors_;  // have not proven anything yet
};

}  // namespace muster::control
