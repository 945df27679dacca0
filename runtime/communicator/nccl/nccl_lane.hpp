// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "communicator/nccl/gpu_lane.hpp"
#include "communicator/nccl/nccl.hpp"

namespace muster::detail {

/// A lane for the operations of this communicator.
std::shared_ptr<GpuLane> make_nccl_lane(std::shared_ptr<NcclState> state, std::shared_ptr<Nccl> nccl);

}  // namespace muster::detail
