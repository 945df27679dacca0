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

/// A host leader's part: hands the messages of its host's ranks on to rank 0, and rank 0's to them, so that
/// rank 0 holds one connection for the whole host. Every call but the constructor on the io_context's thread.
class Relay {
 public:
  using Send = std::function<void(const Message& message)>;

  /// Listens for the ranks of the host at once; `leader` is this rank, `own` its last call.
  /// @throws Error(ErrorCode::system)
  Relay(asio::io_context& io, const Key& key, int leader, std::shared_ptr<const FlightRecorder> own);

  /// While `leaving` says so, a rank that ends its connection is no loss to rank 0.
  void open(const std::vector<int>& ranks, const Key& key, std::chrono::milliseconds heartbeat_timeout,
            Send to_rank_0, std::function<bool()> leaving);

  /// A message of rank 0's for some ranks of this host: true when this rank is among them. The others get
  /// theirs.
  bool hand_on(const std::vector<int>& ranks, const Message& message);
  /// To every rank of the host but this one.
  void tell_all(const Message& message);

  bool empty() const { return connections_->empty(); }
  void close() { connections_->close(); }

 private:
  int leader_;
  std::shared_ptr<const FlightRecorder> own_;
  std::unique_ptr<AuthenticatingAcceptor> gate_;
  std::vector<int> ranks_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace muster::control
