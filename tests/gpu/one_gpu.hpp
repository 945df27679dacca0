// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>

namespace one_gpu {

/// @throws std::runtime_error with CUDA's reason.
void check(cudaError_t result);

/// GPUs that CUDA shows to this process; where there is none, says why on stdout and returns 0.
int count_gpus();

/// Lets the ranks of an mpirun or of on_ranks share the only GPU, where there is only one. NCCL takes ranks
/// of equal host hash and bus id for a mistake, and the host hash comes from NCCL_HOSTID: with a hash of its
/// own each rank is a host of its own to NCCL, and everything goes through its socket transport. That shows
/// that results are right; NVLink, P2P and shared memory are not covered. Before the first NCCL call, which
/// keeps the values.
void share(int gpus);

/// What share() leaves for after the join: the GPU that the CUDA runtime is to use.
void use(int gpus, int local_rank);

}  // namespace one_gpu
