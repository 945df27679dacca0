// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <vector>

#include "communicator/communicator_group.hpp"
#include "communicator/nccl/nccl_library.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// The most ranks that share one NCCL id: MUSTER_NCCL_RANKS_PER_ID, or 128 as in PyTorch
/// (TORCH_NCCL_RANKS_PER_ROOT, pytorch#144794).
/// @throws Error(ErrorCode::environment) when the variable is not an integer of at least 1.
int ranks_per_id();

/// The ranks that create an id, in the order of the ids: `ids` of them, spread over `size` ranks as
/// ncclCommInitRankScalable assigns ranks to ids, so that each id's root is one of the ranks that use it
/// (NCCL User Guide, "Creating a communicator using multiple ncclUniqueIds").
std::vector<int> ranks_with_id(int size, int ids);

/// The same ids on every rank of the group, in the same order. Collective, under the deadline.
/// @throws Error(ErrorCode::environment) when ranks differ in MUSTER_NCCL_RANKS_PER_ID or
/// NCCL_RUNTIME_CONNECT.
std::vector<ncclUniqueId> exchange_ids(const NcclLibrary& library, const CommunicatorGroup& group,
                                       const Deadline& deadline);

}  // namespace muster::detail
