// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "transport/endpoint.hpp"
#include "transport/flight_recorder.hpp"
#include "transport/process_handle.hpp"

namespace muster::control {

/// How a connection ended that was not to end, in words that follow "rank 3 (host n1), pid 77, ".
struct DisconnectCause {
  std::string text;
  bool certain = false;  ///< the process has ended; else it may be stopped or cut off
};

/// The process at the other end of a connection: what it did last, and how it ended. On the same host both
/// are known exactly, on another as its latest words have it.
class PeerProcess {
 public:
  /// `own`: what this process tells the other of itself; may be null.
  PeerProcess(Socket& socket, std::shared_ptr<const FlightRecorder> own);

  /// To be said once; null when there is nothing to say.
  nlohmann::json introduction() const;
  /// To be said now and then.
  nlohmann::json beat() const;
  /// True when it was one of these two.
  bool hear(const nlohmann::json& message);

  /// `reason`: the system's text; `heartbeat_timeout` is 0 unless that is why. A process of this host that is
  /// stopped is killed: the others go on without it, and nobody else would end it.
  DisconnectCause ending(const std::string& reason, std::chrono::milliseconds heartbeat_timeout) const;

 private:
  std::string how(const std::string& reason, std::chrono::milliseconds heartbeat_timeout,
                  bool& certain) const;

  std::shared_ptr<const FlightRecorder> own_;
  bool is_local_;
  ProcessHandle process_;
  FlightRecorder::Reader last_call_;
  std::string said_;  // its last call as it told, by another host
};

}  // namespace muster::control
