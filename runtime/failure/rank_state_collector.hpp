// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <deque>
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

/// Rank 0's query of ranks for what they do, one at a time. Every call on the io_context's thread.
class RankStateCollector {
 public:
  using Send = std::function<void(const std::vector<int>& ranks, const protocol::Message& message)>;
  using OnDone = std::function<void(const RankStates& states)>;

  RankStateCollector(asio::io_context& io, Send send) : send_(std::move(send)), timer_(io) {}

  /// Replaces the query that runs. Calls `on_done` with the states of the ranks that have replied, when all
  /// have or the time is over.
  void start(const std::vector<int>& ranks, protocol::RankStateQuery query, OnDone on_done);
  bool running() const { return on_done_ != nullptr; }
  /// Calls `query`, which may start a query, as soon as none runs. Of very many, the last are dropped.
  void when_idle(std::function<void()> query);
  /// Ignores replies to another query, and of other ranks.
  void add_reply(int rank, const protocol::RankState& state);
  void cancel();

 private:
  void finish();
  void run_waiting();

  Send send_;
  Timer timer_;
  std::uint64_t id_ = 0;  // of the last query
  std::set<int> ranks_;
  RankStates states_;
  OnDone on_done_;
  std::deque<std::function<void()>> waiting_;
};

/// "; rank 2 is in MPI_Init; rank 3 is in no call of Muster's; rank 5 does not answer" for `ranks`, of which
/// these have replied.
std::string describe_current_waits(const std::vector<int>& ranks, const RankStates& states);

}  // namespace muster::control
