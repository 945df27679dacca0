// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/error.hpp"

namespace muster::bootstrap {

/// Environment variables: this process's, or given ones.
class GetEnv {
 public:
  /// This process's. `lookup`: get_env, which most callers pass as it is.
  GetEnv(std::string (*lookup)(const char* name)) : lookup_(lookup) {}  // NOLINT(google-explicit-constructor)
  explicit GetEnv(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}

  /// The value of a variable, empty when it is not set.
  std::string operator()(const std::string& name) const;
  /// The names of all variables that are set.
  std::vector<std::string> names() const;

 private:
  std::string (*lookup_)(const char* name) = nullptr;
  std::map<std::string, std::string> variables_;
};

/// Names of the variables by which a launcher tells a process its place.
struct RankEnvironment {
  std::string launcher;  ///< in messages
  std::string rank;
  std::string size;
  std::string host;  ///< rank 0's, or the hosts of all ranks with commas between
  std::string port;
  bool is_pod = false;  ///< one of Kubernetes, whose pods each have an address of their own
};

/// The names of the first launcher for which rank and size are set: torchrun's, then Kubernetes' kinds.
/// Nothing for a Job of Volcano with several tasks.
std::optional<RankEnvironment> find_rank_environment(const GetEnv& get_env);

/// The tasks of the Volcano Job that this pod belongs to, as Volcano writes them in its variables: RANKS of
/// VC_RANKS_HOSTS. Nothing without Volcano's plugins env and svc.
std::vector<std::string> find_volcano_tasks(const GetEnv& get_env);

/// How many tasks the launcher started, including this process, according to its variables.
struct DetectedLauncher {
  int tasks = 0;
  int rank = 0;
  std::string launcher;  ///< "srun", "mpirun", "a PMI launcher", or RankEnvironment::launcher
};

/// Reads the variables of the innermost launcher. A process below mpirun inside a Slurm step belongs to
/// mpirun: SLURM_STEP_NUM_TASKS then counts mpirun's daemons. Slurm's own variables count only in a task of a
/// step: a batch script has SLURM_PROCID but no SLURM_STEP_ID.
std::optional<DetectedLauncher> detect_launcher(const GetEnv& get_env);

/// True in a Slurm step with several tasks whose innermost launcher is srun.
bool is_step_of_several(const GetEnv& get_env);

/// The error when a process that found no other rank must not run as a single rank; nothing when it may.
std::optional<Error> check_singleton_allowed(const GetEnv& get_env);

/// As check_singleton_allowed(), when PMIX_NAMESPACE is set but PMIx_Init failed with `reason`: an error too
/// without a launcher's task count, since there may be other ranks. Nothing in a Slurm step, which can join
/// without PMIx.
std::optional<Error> check_pmix_required(const GetEnv& get_env, const std::string& reason);

/// The error when PMIx_Init did not return within `waited`. `library`: from PMIx_Get_version(). The text
/// names the releases 5.0.8 and 5.0.9, which do not start under Slurm before 25.11.
Error make_pmix_timeout_error(const GetEnv& get_env, std::string_view library, const std::string& host,
                              std::chrono::milliseconds waited);

/// The error when PMIx's size differs from the launcher's. PMIx's namespace shows whose server it is (Slurm's
/// begins with "slurm.pmix."). A size of 0: the server could not write the job's data. A size of 1 in a step
/// with several tasks is refused for every namespace.
std::optional<Error> check_size_consistency(const GetEnv& get_env, const std::string& pmix_namespace,
                                            int pmix_size);

}  // namespace muster::bootstrap
