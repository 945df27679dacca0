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

#include "transport/authenticating_acceptor.hpp"
#include "transport/channel.hpp"

namespace muster::control {

/// The authenticated connections of a host leader: to the ranks of its host and, on rank 0, to the leaders of
/// other hosts. Every call on the io_context's thread.
class Connections {
 public:
  using OnMessage = std::function<void(int rank, const Message& message)>;
  using OnConnect = std::function<void(int rank)>;
  /// A rank that had sent a message disconnected or timed out.
  using OnDisconnect = std::function<void(int rank, const DisconnectCause& cause)>;

  /// `recorder`: this process's last call, which the ranks can read.
  Connections(std::shared_ptr<const FlightRecorder> recorder, std::chrono::milliseconds heartbeat_timeout,
              OnConnect on_connect, OnMessage on_message, OnDisconnect on_disconnect)
      : recorder_(std::move(recorder)),
        heartbeat_timeout_(heartbeat_timeout),
        on_connect_(std::move(on_connect)),
        on_message_(std::move(on_message)),
        on_disconnect_(std::move(on_disconnect)) {}

  /// Accepts these ranks on `acceptor`.
  void open(std::unique_ptr<AuthenticatingAcceptor> acceptor, int leader, const std::vector<int>& ranks,
            const Key& key);
  /// Adds the connection of an authenticated rank.
  void admit(int rank, std::shared_ptr<Channel> channel);

  /// No effect for a rank that is not connected.
  void send(int rank, const Message& message);
  /// Channel::send_heartbeat() on all connections.
  void send_heartbeat();
  /// Calls `on_empty` as soon as no rank is connected.
  void when_empty(std::function<void()> on_empty);
  /// Closes all connections once their queued messages are sent, and stops accepting.
  void close();

 private:
  void remove(int rank, const std::string& reason);

  std::shared_ptr<const FlightRecorder> recorder_;
  std::chrono::milliseconds heartbeat_timeout_;
  OnConnect on_connect_;
  OnMessage on_message_;
  OnDisconnect on_disconnect_;
  std::function<void()> on_empty_;
  std::vector<std::unique_ptr<AuthenticatingAcceptor>> acceptors_;
  std::map<int, std::shared_ptr<Channel>> channels_;
  std::set<int> identified_;  // sent a message; a second connection of such a rank is refused
};

}  // namespace muster::control
