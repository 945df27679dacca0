// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/error.hpp"
#include "muster/job.hpp"
#include "transport/peer_process.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {

/// What ended the job, the same on every rank. Only the reporter prints it; the other ranks end silently.
struct Failure {
  ErrorCode code = ErrorCode::system;
  int reporter = 0;
  std::string text;
  int lost = -1;                ///< the lost rank; -1: another kind of failure
  bool confirmed_dead = false;  ///< the lost rank's process has ended
};

Message to_message(const Failure& failure);
Failure parse_failure(const Message& message);

/// `lost` disconnected before the end of the job.
Failure make_rank_loss(const Hello& lost, int reporter, const DisconnectCause& cause);

/// The rank that reports the loss of rank 0: the first one on another host, because rank 0's whole host may
/// be down; rank 1 if there is one host only.
int reporter_when_rank0_lost(const std::vector<Hello>& roster);

}  // namespace muster::control
