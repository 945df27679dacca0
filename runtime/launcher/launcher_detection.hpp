// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "muster/error.hpp"

namespace muster::bootstrap {

/// The value of an environment variable, empty when it is not set.
using GetEnv = std::function<std::string(const char*)>;

/// How many tasks a launcher started together with this process, as far as its variables tell.
struct DetectedLauncher {
  int tasks = 0;
  int rank = 0;
  std::string launcher;  ///< "srun", "mpirun", "a PMI launcher", "RANK and WORLD_SIZE"
};

/// What the innermost launcher says. A process below mpirun inside a Slurm step belongs to mpirun:
/// SLURM_STEP_NUM_TASKS then counts mpirun's daemons. Slurm's own variables count only in a task of a step: a
/// batch script has SLURM_PROCID but no SLURM_STEP_ID.
std::optional<DetectedLauncher> detect_launcher(const GetEnv& variable);

/// True in a Slurm step of several tasks whose innermost launcher is srun.
bool is_step_of_several(const GetEnv& variable);

/// Why a process that found no one to join must not run by itself; nothing when it may.
std::optional<Error> check_singleton_allowed(const GetEnv& variable);

/// As check_singleton_allowed(), for a process to which PMIx was announced but did not start, with PMIx's
/// reason: where no launcher's variables say how many tasks there are, there may be others. Nothing in a
/// Slurm step, which can meet without PMIx.
std::optional<Error> check_pmix_required(const GetEnv& variable, const std::string& reason);

/// What to throw when PMIx_Init has not returned for so long. library: what PMIx_Get_version() says; the
/// releases 5.0.8 and 5.0.9 are named, which do not start under Slurm before 25.11.
Error silence_of_pmix(const GetEnv& variable, std::string_view library, const std::string& host,
                      std::chrono::milliseconds waited);

/// Compares PMIx's size with the launcher's. PMIx's name of the job tells whose server it is (Slurm's begin
/// with "slurm.pmix."). A size of 1 in a step of several tasks is refused whatever the name.
std::optional<Error> check_size_consistency(const GetEnv& variable, const std::string& pmix_namespace,
                                             int pmix_size);

}  // namespace muster::bootstrap
