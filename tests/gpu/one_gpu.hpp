// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace one_gpu {

/// @throws std::runtime_error with CUDA's reason.
void check(cudaError_t result);

/// The number of GPUs that CUDA shows to this process. Without any, prints the reason to stdout and returns
/// 0.
int count_gpus();

/// Lets the ranks of mpirun or on_ranks share the GPU if there is only one. NCCL refuses ranks with the same
/// host hash and bus id. NCCL_HOSTID sets the host hash: each rank gets its own, so to NCCL it is a separate
/// host, and all data goes through the socket transport. That tests results, not NVLink, P2P or shared
/// memory. Call before the first NCCL call, which keeps the values.
void share_only_gpu(int gpus);

/// `count` floats between -0.5 and 0.5, the same on each call. Copies and sums of zeros need less power, and
/// power limits a GPU's clock.
std::vector<float> random_floats(std::size_t count);

/// Selects the CUDA runtime's GPU; call after the join.
void select_gpu(int gpus, int local_rank);

}  // namespace one_gpu
