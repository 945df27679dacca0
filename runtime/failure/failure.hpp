// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/error.hpp"
#include "muster/job.hpp"
#include "transport/secure_channel.hpp"
#include "transport/peer_process.hpp"

namespace muster::control {

/// What ended the job, the same on every rank. Only the speaker says it; the others end without a word.
struct Failure {
  ErrorCode code = ErrorCode::system;
  int speaker = 0;
  std::string text;
  int lost = -1;         ///< the rank that was lost, if that is it
  bool certain = false;  ///< its process has ended
};

Message to_message(const Failure& failure);
Failure failure_from(const Message& message);

/// This rank's connection ended before the job did.
Failure make_rank_loss(const Hello& lost, int speaker, const DisconnectCause& ending);

/// Rank 0 cannot tell the others of its own end. One of them speaks: on another host, since rank 0's may have
/// gone as a whole.
int reporter_when_rank0_lost(const std::vector<Hello>& roster);

}  // namespace muster::control
