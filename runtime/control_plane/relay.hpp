// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "control_plane/connections.hpp"
#include "failure/failure.hpp"

namespace muster::control {

/// A host leader's relay: forwards messages between its host's ranks and rank 0, so that rank 0 holds one
/// connection per host. Every call but the constructor on the io_context's thread.
class Relay {
 public:
  using Send = std::function<void(const Message& message)>;

  /// `leader` is this rank, `recorder` has its last call. While `leaving` returns true, a disconnect is not
  /// reported to rank 0 as a loss.
  Relay(int leader, std::vector<int> ranks, std::chrono::milliseconds heartbeat_timeout,
        std::shared_ptr<const FlightRecorder> recorder, const Send& send_to_rank0,
        std::function<bool()> leaving);

  /// Accepts the ranks of the host on `acceptor`.
  void open(std::unique_ptr<AuthenticatingAcceptor> acceptor, const Key& key) {
    connections_.open(std::move(acceptor), leader_, ranks_, key);
  }
  void admit(int rank, std::shared_ptr<Channel> channel) { connections_.admit(rank, std::move(channel)); }

  /// Sends rank 0's message to these ranks of the host, except this one. True when this rank is among them.
  bool forward(const std::vector<int>& ranks, const Message& message);
  /// Sends to every rank of the host but this one.
  void broadcast(const Message& message);

  void when_empty(std::function<void()> on_empty) { connections_.when_empty(std::move(on_empty)); }
  void close() { connections_.close(); }

 private:
  int leader_;
  std::vector<int> ranks_;
  Connections connections_;
};

}  // namespace muster::control
