// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "protocol/message.hpp"
#include "transport/endpoint.hpp"
#include "transport/flight_recorder.hpp"
#include "transport/process_handle.hpp"

namespace muster::control {

/// Why a connection ended unexpectedly; `text` follows "rank 3 (host n1), pid 77, ".
struct DisconnectCause {
  std::string text;
  bool confirmed_dead = false;  ///< the process has ended; otherwise it may be stopped or cut off
  bool silent = false;          ///< nothing came for the heartbeat timeout, or for half of it before the end
};

/// The process at the other end of a connection: its last call, and how it ended. On the same host both are
/// known exactly; on another host they come from its last heartbeat.
class PeerProcess {
 public:
  /// `recorder`: this process's last call, for the other side. Null where nobody calls disconnect_cause(): a
  /// handle of the other process takes a descriptor, and a leader has a connection to each rank of its host.
  PeerProcess(Socket& socket, std::shared_ptr<const FlightRecorder> recorder);

  /// Send once, as the first message; null when there is nothing to send.
  protocol::Message identity_message() const;
  /// Send regularly.
  protocol::Message heartbeat_message() const;
  /// Handles these two messages; false for any other message.
  bool handle_message(const protocol::Message& message);

  /// `reason`: the system's text. `heartbeat_timeout`: 0 unless the connection timed out. Kills a stopped
  /// process of this host: the other ranks continue without it, and nothing else would end it.
  DisconnectCause disconnect_cause(const std::string& reason,
                                   std::chrono::milliseconds heartbeat_timeout) const;

 private:
  std::string describe_end(const std::string& reason, std::chrono::milliseconds heartbeat_timeout,
                           bool& confirmed_dead) const;

  std::shared_ptr<const FlightRecorder> recorder_;
  bool is_local_;
  ProcessHandle process_;
  FlightRecorder::Reader peer_recorder_;
  std::string last_reported_call_;  // of a process on another host
};

}  // namespace muster::control
