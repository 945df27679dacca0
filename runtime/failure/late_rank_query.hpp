// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "transport/secure_channel.hpp"

namespace muster::control {

/// Queries the current calls of connected ranks that did not join a round in time. Every call on the
/// io_context's thread.
class LateRankQuery {
 public:
  /// Calls `on_timeout` when the time for replies is over.
  LateRankQuery(asio::io_context& io, const std::vector<int>& queried, std::function<void()> on_timeout);

  static Message query_message() { return {{"is", "whereabouts"}}; }
  void add_reply(int rank, const Message& reply);
  bool all_replied() const { return replies_.size() == queried_.size(); }
  /// "; rank 2 is in MPI_Init; rank 3 is in no call of Muster's; rank 5 does not answer".
  std::string text() const;

 private:
  std::set<int> queried_;
  std::map<int, std::string> replies_;
  asio::steady_timer timer_;
};

}  // namespace muster::control
