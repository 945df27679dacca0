// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "communicator/nccl/comm_stream.hpp"
#include "communicator/nccl/nccl_comm.hpp"

namespace muster::detail {

/// A side stream for the operations of this communicator.
std::shared_ptr<CommStream> make_nccl_stream(std::shared_ptr<NcclState> state,
                                             std::shared_ptr<NcclComm> comm);

}  // namespace muster::detail
