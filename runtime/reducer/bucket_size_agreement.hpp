// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "communicator/backend.hpp"
#include "communicator/nccl/comm_stream.hpp"
#include "muster/reducer.hpp"

namespace muster::detail {

/// Bytes of a bucket: rank 0's MUSTER_BUCKET_BYTES, else what the options say, else from a measurement on
/// `own`. Collective. `lane` on GPU memory, else null.
/// @throws Error(ErrorCode::usage) when ranks have other parameters or options than rank 0, or no parameters,
/// or when the variable is no number.
std::size_t agree_on_buckets(CommunicatorBackend& own, CommStream* lane, std::span<const std::size_t> sizes,
                             const ReducerOptions& options);

}  // namespace muster::detail
