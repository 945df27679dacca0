// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "transport/secure_channel.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::control {

/// The proven connections of one leader: to the ranks of its host, and at rank 0 to the other hosts' leaders.
/// Every call on the io_context's thread.
class Connections {
 public:
  using OnMessage = std::function<void(int rank, const Message& message)>;
  using OnCome = std::function<void(int rank)>;
  /// A rank that had said something ended its connection, or fell silent.
  using OnLoss = std::function<void(int rank, const DisconnectCause& ending)>;

  /// `own`: what the ranks are told of this process's last call.
  Connections(std::shared_ptr<const FlightRecorder> own, OnCome on_come, OnMessage on_message, OnLoss on_loss)
      : own_(std::move(own)),
        on_come_(std::move(on_come)),
        on_message_(std::move(on_message)),
        on_loss_(std::move(on_loss)) {}

  /// Lets these ranks in through the gate.
  void open(std::unique_ptr<AuthenticatingAcceptor> gate, const std::vector<int>& ranks, const Key& key,
            std::chrono::milliseconds heartbeat_timeout);

  /// Nothing happens for a rank that is not connected.
  void send(int rank, const Message& message);
  /// As SecureChannel::send_heartbeat(), to all.
  void send_heartbeat();
  bool empty() const { return channels_.empty(); }
  /// Ends all connections after what was sent, and lets nobody in any more.
  void close();

 private:
  void admit(int rank, Socket socket, const SessionKeys& keys);
  void end(int rank, const std::string& reason);

  std::shared_ptr<const FlightRecorder> own_;
  OnCome on_come_;
  OnMessage on_message_;
  OnLoss on_loss_;
  std::chrono::milliseconds heartbeat_timeout_{0};
  std::vector<std::unique_ptr<AuthenticatingAcceptor>> gates_;
  std::map<int, std::shared_ptr<SecureChannel>> channels_;
  std::set<int> spoken_;  // said something: whoever comes again in the name of one of these is a copy
};

}  // namespace muster::control
