// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "muster/muster.hpp"
#include "training/strategy.hpp"

namespace muster {

/// After a loss that interrupted a step when some ranks had made its update and others not: the others get
/// its gradients and make it, too. For a strategy whose ranks keep parts of the state: the ranks that made
/// the update have not exchanged their parts yet, and so still have the gradients. Collective over the job.
/// `strategy`: of before the loss; null on a rank without state. `ended`: steps that have ended on this rank.
/// After an exception it can be called again on fewer ranks.
void share_gradients(Communicator left, Strategy* strategy, std::int64_t ended);

}  // namespace muster
