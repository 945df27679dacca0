// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "muster/error.hpp"
#include "muster/job.hpp"
#include "protocol/messages.hpp"
#include "transport/peer_process.hpp"

namespace muster::control {

using protocol::Failure;

/// `lost` disconnected before the end of the job.
Failure make_rank_loss(const Hello& lost, int reporter, const DisconnectCause& cause);

/// The rank that reports the loss of rank 0: the first one on another host, because rank 0's whole host may
/// be down; rank 1 if there is one host only.
int reporter_when_rank0_lost(const std::vector<Hello>& roster);

/// The ranks in the order in which they report a loss, when the ranks before them have ended, too: rank 0,
/// the ranks of other hosts, those of rank 0's host.
std::vector<int> reporter_order(const std::vector<Hello>& roster);

}  // namespace muster::control
