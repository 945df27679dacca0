// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::control {

/// What a rank knows when it looks for the others that are left.
struct RecoveryConfig {
  int rank = 0;
  std::vector<std::string> names;                   ///< by rank, for messages
  std::vector<std::vector<std::string>> addresses;  ///< by rank: numeric, the likeliest first
  std::vector<std::uint16_t> ports;                 ///< by rank: port() of its SurvivorRendezvous
  Key key{};                                        ///< of this reunion, the same on every rank
  std::set<int> ended;                              ///< these are certain to have ended
  std::set<int> silent;                             ///< these were lost but may live, stopped or cut off
};

/// How the ranks that are left after a loss find together: they come to the lowest of them, whose gate stands
/// ready since the job began, and which closes the list when everybody has come whose process still runs and
/// can be reached. So that a job that is cut in two does not go on twice, the ranks that came must be more
/// than half of those that are not certain to have ended, or half of them with the lowest.
class SurvivorRendezvous {
 public:
  using Words = std::map<int, std::vector<std::uint8_t>>;

  /// @throws Error(ErrorCode::system) when no port is free.
  SurvivorRendezvous() : gate_(io_) {}
  std::uint16_t port() const { return gate_.port(); }

  /// What each of those that are left said, by rank; the same on all of them. Once per object.
  /// @throws Error: lost_rank when they are too few, deadline.
  Words run(RecoveryConfig plan, const std::vector<std::uint8_t>& mine, const Deadline& deadline);

 private:
  asio::io_context io_;
  AuthenticatingAcceptor gate_;
};

}  // namespace muster::control
