// SPDX-License-Identifier: Apache-2.0
// What is found while the program runs, against what it was built with. Each gives a version, or an empty
// text where there is none; nothing is initialised and no GPU is woken.
#pragma once

#include <string>

namespace muster::cli::found {

/// Of srun, by its own word.
std::string slurm();
/// Its interface, which has a number of its own.
std::string hwloc();
std::string pmix();
std::string open_mpi();
/// The newest CUDA that the driver's library speaks.
std::string cuda();
std::string nccl();

}  // namespace muster::cli::found
