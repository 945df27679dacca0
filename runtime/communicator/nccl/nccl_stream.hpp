// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "communicator/nccl/comm_stream.hpp"
#include "communicator/nccl/nccl_communicator.hpp"

namespace muster::detail {

/// A side stream for the operations of this communicator.
std::shared_ptr<CommStream> make_nccl_stream(std::shared_ptr<NcclState> state,
                                             std::shared_ptr<NcclCommunicator> nccl);

}  // namespace muster::detail
