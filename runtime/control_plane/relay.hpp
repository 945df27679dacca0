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

  /// Listens for the ranks of the host at once. `leader` is this rank, `recorder` has its last call.
  /// @throws Error(ErrorCode::system)
  Relay(asio::io_context& io, const Key& key, int leader, std::shared_ptr<const FlightRecorder> recorder);

  /// While `leaving` returns true, a disconnect is not reported to rank 0 as a loss.
  void open(const std::vector<int>& ranks, const Key& key, std::chrono::milliseconds heartbeat_timeout,
            const Send& send_to_rank0, std::function<bool()> leaving);

  /// Sends rank 0's message to these ranks of the host, except this one. True when this rank is among them.
  bool forward(const std::vector<int>& ranks, const Message& message);
  /// Sends to every rank of the host but this one.
  void broadcast(const Message& message);

  bool empty() const { return connections_->empty(); }
  void close() { connections_->close(); }

 private:
  int leader_;
  std::shared_ptr<const FlightRecorder> recorder_;
  std::unique_ptr<AuthenticatingAcceptor> acceptor_;
  std::vector<int> ranks_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace muster::control
