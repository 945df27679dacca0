// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deadline.hpp"
#include "recovery/recovery_config.hpp"
#include "recovery/survivor_network.hpp"

namespace muster::control {

/// Finds the surviving ranks after a loss: they connect to the lowest of them, which closes the list when
/// each rank has joined, has ended or cannot be reached. Returns each survivor's payload, the same on all
/// survivors.
/// @throws Error: lost_rank without a quorum; deadline.
SurvivorPayloads run_recovery(SurvivorNetwork& network, RecoveryConfig config,
                              const std::vector<std::uint8_t>& mine, const Deadline& deadline);

}  // namespace muster::control
