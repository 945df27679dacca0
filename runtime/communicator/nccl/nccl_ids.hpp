// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <vector>

#include "communicator/communicator_group.hpp"
#include "communicator/nccl/nccl_library.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// How many ranks meet at one of NCCL's ids, at most: 128, as PyTorch (TORCH_NCCL_RANKS_PER_ROOT,
/// pytorch#144794), or MUSTER_NCCL_RANKS_PER_ID.
/// @throws Error(ErrorCode::environment) when that is no number from 1 on.
int ranks_per_id();

/// The ranks that bring an id, in the ids' order: `ids` of them, spread over `size` ranks as
/// ncclCommInitRankScalable assigns the ranks to ids, so that each id's meeting is held by one of its own
/// ranks (NCCL User Guide, "Creating a communicator using multiple ncclUniqueIds").
std::vector<int> ranks_with_id(int size, int ids);

/// The same ids on every rank of the group, in the same order. Collective, under the deadline.
/// @throws Error(ErrorCode::environment) when ranks differ in MUSTER_NCCL_RANKS_PER_ID or
/// NCCL_RUNTIME_CONNECT.
std::vector<ncclUniqueId> exchange_ids(const NcclLibrary& library, const CommunicatorGroup& group,
                                       const Deadline& deadline);

}  // namespace muster::detail
