// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "protocol/message.hpp"
#include "transport/peer_process.hpp"

namespace muster::control {

using protocol::Message;

/// A connection to another process: whole messages, in order. Every call and callback on the control thread.
class Channel {
 public:
  using OnMessage = std::function<void(const Message&)>;
  /// `reason` is the system's text. Called once, not after close().
  using OnDisconnect = std::function<void(const std::string& reason)>;

  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  virtual ~Channel() = default;

  /// Both sides send a heartbeat every quarter of `heartbeat_timeout`. A side that receives nothing for that
  /// time disconnects: the other process is stopped or its host is down. 0: no heartbeats.
  virtual void start(OnMessage on_message, OnDisconnect on_disconnect,
                     std::chrono::milliseconds heartbeat_timeout) = 0;
  virtual void send(const Message& message) = 0;
  /// Sends a heartbeat now, besides the regular ones.
  virtual void send_heartbeat() = 0;
  /// Closes the connection once queued messages are sent. With heartbeats it then waits up to 0.25 s for the
  /// other side to close it, too. The callbacks are not called again.
  virtual void close() = 0;
  /// Call within OnDisconnect: how the process at the other end ended, as far as it can be known.
  virtual DisconnectCause disconnect_cause(const std::string& reason) const = 0;
};

}  // namespace muster::control
