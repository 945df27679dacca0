// SPDX-License-Identifier: Apache-2.0
// Versions found at run time, to compare with those of the build. Each function returns a version, or an
// empty text when there is none. Nothing is initialised, and no GPU is woken.
#pragma once

#include <string>

namespace muster::cli::found {

/// The version that slurmd or srun prints.
std::string slurm();
/// The version of hwloc's API, which has its own number.
std::string hwloc();
std::string pmix();
std::string open_mpi();
/// The newest CUDA version that the driver library supports.
std::string cuda();
std::string nccl();

}  // namespace muster::cli::found
