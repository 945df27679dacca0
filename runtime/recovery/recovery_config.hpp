// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "transport/handshake.hpp"

namespace muster::control {

/// What a rank knows when it looks for the other survivors.
struct RecoveryConfig {
  int rank = 0;
  std::vector<std::string> names;                   ///< by rank, for messages
  std::vector<std::string> hosts;                   ///< by rank: the same on ranks of one host
  std::vector<std::vector<std::string>> addresses;  ///< by rank: numeric, the most likely first
  std::vector<std::uint16_t> ports;                 ///< by rank: port() of its SurvivorRendezvous
  Key key{};                                        ///< of this recovery, the same on every rank
  std::set<int> ended;                              ///< ranks whose processes have certainly ended
  std::set<int> silent;                             ///< lost ranks that may live, stopped or cut off
};

/// What each survivor sent, by rank.
using SurvivorPayloads = std::map<int, std::vector<std::uint8_t>>;

}  // namespace muster::control
