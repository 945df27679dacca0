// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace muster {

/// Time that this rank spent in each phase from join() to its communicators, including waits for other ranks.
/// 0: not done (yet), or not needed.
struct Timings {
  using Milliseconds = std::chrono::duration<double, std::milli>;

  Milliseconds join{0};       ///< all of join(); its phases are the next four
  Milliseconds bootstrap{0};  ///< finding the job: PMIx_Init, or reading variables
  Milliseconds gpu{0};        ///< loading CUDA and NCCL and taking the GPU
  Milliseconds exchange{0};   ///< exchanging the hellos of all ranks
  Milliseconds plane{0};      ///< connecting the control plane, with its first barrier

  Milliseconds world{0};      ///< building world(); on NCCL the next three are its phases
  Milliseconds nccl_id{0};    ///< from ncclGetUniqueId on rank 0 or the root ranks until every rank has it
  Milliseconds nccl_init{0};  ///< until NCCL reports the communicator as ready
  Milliseconds first_collective{0};  ///< the all-reduce of one float at the end of world()
  Milliseconds intra_node{0};        ///< building intra_node(): split and first collective
  Milliseconds inter_node{0};        ///< building inter_node(), likewise
  Milliseconds host_world{0};        ///< building host_world(): MPI_Init, with the barriers around it
};

}  // namespace muster
