// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "communicator/backend.hpp"
#include "communicator/nccl/comm_stream.hpp"
#include "muster/reducer.hpp"

namespace muster::detail {

/// Bytes of a bucket: rank 0's MUSTER_BUCKET_BYTES, else the options' value, else from a measurement on
/// `comm`. Collective. `comm_stream` is null on host memory.
/// @throws Error(ErrorCode::usage) if a rank has other parameters or options than rank 0, if there are no
/// parameters, or if the variable is not a positive integer.
std::size_t agree_on_bucket_bytes(CommunicatorBackend& comm, CommStream* comm_stream,
                                  std::span<const std::size_t> sizes, const ReducerOptions& options);

}  // namespace muster::detail
