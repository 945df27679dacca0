// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "timer.hpp"

namespace muster::control {

/// Longer descriptions of waits are cut.
inline constexpr std::size_t max_wait_length = 200;

/// By rank: what it does.
using RankStates = std::map<int, protocol::RankState>;

/// Rank 0's query of ranks for what they do. Every call on the io_context's thread.
class RankStateCollector {
 public:
  using OnDone = std::function<void(const RankStates& states)>;

  /// Calls `on_timeout` when the time for replies is over, unless this object was destroyed.
  RankStateCollector(asio::io_context& io, std::uint64_t id, const std::vector<int>& ranks, OnDone on_done,
                     std::function<void()> on_timeout);

  std::uint64_t id() const { return id_; }
  /// True when all ranks have replied. Ignores replies to another query, and of other ranks.
  bool add_reply(int rank, const protocol::RankState& state);
  /// Passes the states of the ranks that have replied to `on_done`.
  void finish() { on_done_(states_); }

 private:
  std::uint64_t id_;
  std::set<int> ranks_;
  RankStates states_;
  OnDone on_done_;
  Timer timer_;
};

/// "; rank 2 is in MPI_Init; rank 3 is in no call of Muster's; rank 5 does not answer" for `ranks`, of which
/// these have replied.
std::string describe_current_waits(const std::vector<int>& ranks, const RankStates& states);

}  // namespace muster::control
