// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/channel.hpp"
#include "control/peer.hpp"
#include "muster/error.hpp"
#include "muster/job.hpp"

namespace muster::control {

/// What ended the job, the same on every rank. Only the speaker says it; the others end without a word.
struct Failure {
  Fault fault = Fault::system;
  int speaker = 0;
  std::string text;
  int lost = -1;         ///< the rank that was lost, if that is it
  bool certain = false;  ///< its process has ended
};

/// "all_reduce (operation 5 on communicator 'world')"; without a number for 0, a message between two ranks;
/// "MPI_Init" alone without a group, for what is no communicator's.
std::string place_of(const std::string& operation, std::uint64_t number, const std::string& group);

Message to_message(const Failure& failure);
Failure failure_from(const Message& message);

/// This rank's connection ended before the job did.
Failure loss_of(const Hello& lost, int speaker, const Ending& ending);

/// Rank 0 cannot tell the others of its own end. One of them speaks: on another host, since rank 0's may have
/// gone as a whole.
int speaker_without_rank_0(const std::vector<Hello>& roster);

}  // namespace muster::control
