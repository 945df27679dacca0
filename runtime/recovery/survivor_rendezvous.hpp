// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <vector>

#include "deadline.hpp"
#include "failure/reporter_check.hpp"
#include "recovery/recovery_config.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::control {

/// Gathers the surviving ranks after a loss. They connect to the lowest survivor, whose acceptor has listened
/// since the job began. It closes the list when all ranks have joined that run and can be reached. So that a
/// partitioned job does not continue twice, a quorum is needed: more than half of the ranks that have not
/// certainly ended, or exactly half of them with the lowest.
class SurvivorRendezvous {
 public:
  using Payloads = SurvivorPayloads;

  /// @throws Error(ErrorCode::system) when no port is free.
  SurvivorRendezvous() : acceptor_(io_) {}
  std::uint16_t port() const { return acceptor_.port(); }
  /// The states of processes with such an object, of which these are the endpoints, the most likely first:
  /// ended when the first one refuses connections. Makes this many connections to each endpoint, and waits at
  /// most `wait` for answers.
  static std::vector<ProcessState> find_states(const std::vector<std::vector<Endpoint>>& processes,
                                               std::chrono::milliseconds wait, int connections);

  /// Returns each survivor's payload, by rank; the same on all survivors. Call once per object.
  /// @throws Error: lost_rank without a quorum; deadline.
  Payloads run(RecoveryConfig config, const std::vector<std::uint8_t>& mine, const Deadline& deadline);

 private:
  asio::io_context io_;
  AuthenticatingAcceptor acceptor_;
};

}  // namespace muster::control
