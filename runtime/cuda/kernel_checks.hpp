// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::detail {

/// Whether MUSTER_CUDA_CHECK is 1: the process then waits after each kernel, so that an error names it.
/// @throws Error(ErrorCode::usage) when it is neither 0 nor 1.
bool wants_kernel_checks();

}  // namespace muster::detail
