// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace muster {

/// How long this rank spent in each phase from join() to its communicators, waiting for other ranks included.
/// 0: not done (yet), or not needed.
struct Timings {
  using Milliseconds = std::chrono::duration<double, std::milli>;

  Milliseconds join{0};       ///< all of join(); its phases are the next four
  Milliseconds bootstrap{0};  ///< finding the job: PMIx_Init, or what stands in the variables
  Milliseconds gpu{0};        ///< loading CUDA and NCCL and taking the GPU
  Milliseconds exchange{0};   ///< the hellos of all ranks
  Milliseconds plane{0};      ///< connecting the control plane, with its first barrier

  Milliseconds world{0};      ///< building world(); of NCCL's, the next three are phases
  Milliseconds nccl_id{0};    ///< from rank 0's or the root ranks' ncclGetUniqueId to everybody's having it
  Milliseconds nccl_init{0};  ///< until NCCL says that the communicator is ready
  Milliseconds first_collective{0};  ///< the all-reduce of one float that world() ends with
  Milliseconds intra_node{0};        ///< building intra_node(): split and first collective
  Milliseconds inter_node{0};        ///< building inter_node(), likewise
  Milliseconds host_world{0};        ///< building host_world(): MPI_Init, with the meetings around it
};

}  // namespace muster
