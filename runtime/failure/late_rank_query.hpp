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

/// Some ranks did not come to a round in time although they are connected: what do they do instead? Every
/// call on the io_context's thread.
class LateRankQuery {
 public:
  /// `done` is called when the ranks' time to answer is over.
  LateRankQuery(asio::io_context& io, const std::vector<int>& asked, std::function<void()> done);

  static Message to_ask() { return {{"is", "whereabouts"}}; }
  void hear(int rank, const Message& reply);
  bool complete() const { return replies_.size() == asked_.size(); }
  /// "; rank 2 is in MPI_Init; rank 3 is in no call of Muster's; rank 5 does not answer".
  std::string text() const;

 private:
  std::set<int> asked_;
  std::map<int, std::string> replies_;
  asio::steady_timer timer_;
};

}  // namespace muster::control
