// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/communicator.hpp"
#include "report/summary.hpp"

namespace muster {

/// Gives every rank what rank 0 has of the run's past: the ranks of its start, and which ranks were lost and
/// joined. A process that joins a run needs it, since it may become rank 0, which writes the summary.
/// `lost_hosts`: as RunStatus. Collective over `world`.
void share_history(Communicator world, Summary& facts, std::vector<std::string>& lost_hosts);

}  // namespace muster
