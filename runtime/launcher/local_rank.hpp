// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/launcher_detection.hpp"

namespace muster::bootstrap {

/// Which of the launcher's processes on this host this one is.
struct LocalRank {
  int local_rank = 0;
  int local_size = 1;
  int rank = -1;         ///< of the whole job; -1: unknown
  int world_size = 0;    ///< 0: unknown
  std::string launcher;  ///< for display: "torchrun", "mpirun", "srun", …; empty: none
};

/// What the user gave on the command line; unset: the launcher's. If both are set, no launcher is asked.
struct GivenLocalRank {
  std::optional<int> rank, size;
};

/// Reads the variables of the innermost launcher: torchrun, Open MPI, Hydra (MPICH, Intel MPI), MVAPICH,
/// Slurm, PALS, Cray's PMI, or LOCAL_RANK and LOCAL_WORLD_SIZE. Without a launcher, and in a
/// pod of Kubernetes without one: 0 of 1.
/// @throws Error(ErrorCode::environment) with one line if a launcher started several processes and does not
/// say which one this is, or if its variables contradict each other.
LocalRank find_local_rank(const GetEnv& get_env, const GivenLocalRank& given = {});

}  // namespace muster::bootstrap
