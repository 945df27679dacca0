// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "deadline.hpp"
#include "protocol/messages.hpp"

namespace muster::control {

/// Requests between ranks, answered on the other rank's control thread without its program. Thread-safe.
class RpcTable {
 public:
  using Bytes = std::vector<std::uint8_t>;
  /// Runs on the control thread. Returns nothing when there is no answer.
  using Handler = std::function<std::optional<Bytes>(const Bytes& request)>;

  /// Sets the handler of `topic`; an empty function removes it.
  void register_handler(const std::string& topic, Handler handler);
  /// Runs the handler of another rank's request.
  protocol::RpcResponse handle_request(const protocol::RpcRequest& request) const;

  /// Starts a request and returns its number.
  std::uint64_t begin_request();
  /// Completes a request.
  void on_response(const protocol::RpcResponse& response);
  /// The answer; nothing when there is none, or at `until`. Ends the request.
  std::optional<Bytes> wait_for_response(std::uint64_t number, Deadline::Clock::time_point until);

 private:
  struct PendingRequest {
    bool completed = false;
    std::optional<Bytes> answer;
  };
  mutable std::mutex mutex_;
  Condition changed_;
  std::map<std::string, Handler> handlers_;
  std::map<std::uint64_t, PendingRequest> pending_;
  std::uint64_t last_number_ = 0;
};

}  // namespace muster::control
