// SPDX-License-Identifier: Apache-2.0
#include "launcher/launcher_detection.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "deadline.hpp"
#include "text/parse_number.hpp"

namespace muster::bootstrap {
namespace {

// 0 unless the text is an integer.
int parse_count(const std::string& text) { return parse_number<int>(text).value_or(0); }

std::optional<DetectedLauncher> detect_slurm(const GetEnv& get_env) {
  if (get_env("SLURM_STEP_ID").empty() || get_env("SLURM_PROCID").empty()) return std::nullopt;
  int const tasks = parse_count(get_env("SLURM_STEP_NUM_TASKS"));
  if (tasks < 1) return std::nullopt;
  return DetectedLauncher{tasks, parse_count(get_env("SLURM_PROCID")), "srun"};
}

const RankEnvironment rank_environments[] = {
    {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", false},
    {"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS", "MASTER_PORT", true},
    {"Kubeflow Trainer", "PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT", true},
    {"a Job of Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", true},
};

}  // namespace

std::string GetEnv::operator()(const std::string& name) const {
  if (lookup_ != nullptr) return lookup_(name.c_str());
  auto const found = variables_.find(name);
  return found == variables_.end() ? "" : found->second;
}

std::vector<std::string> GetEnv::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables_) names.push_back(name);
  for (char** variable = environ; lookup_ != nullptr && variable != nullptr && *variable != nullptr;
       ++variable)
    names.push_back(std::string(*variable).substr(0, std::string_view(*variable).find('=')));
  return names;
}

std::vector<std::string> find_volcano_tasks(const GetEnv& get_env) {
  constexpr std::string_view prefix = "VC_", suffix = "_HOSTS";
  std::vector<std::string> tasks;
  if (get_env("VC_TASK_INDEX").empty()) return tasks;
  for (const auto& name : get_env.names())
    if (name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix))
      tasks.push_back(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  return tasks;
}

std::optional<RankEnvironment> find_rank_environment(const GetEnv& get_env) {
  for (const auto& names : rank_environments)
    if (!get_env(names.rank).empty() && !get_env(names.size).empty()) return names;
  auto const tasks = find_volcano_tasks(get_env);
  if (tasks.size() != 1) return std::nullopt;
  return RankEnvironment{.launcher = "Volcano",
                         .rank = "VC_TASK_INDEX",
                         .size = "VC_" + tasks.front() + "_NUM",
                         .host = "VC_" + tasks.front() + "_HOSTS",
                         .port = "MASTER_PORT",
                         .is_pod = true};
}

std::optional<DetectedLauncher> detect_launcher(const GetEnv& get_env) {
  if (int const tasks = parse_count(get_env("OMPI_COMM_WORLD_SIZE")); tasks > 0) {
    return DetectedLauncher{tasks, parse_count(get_env("OMPI_COMM_WORLD_RANK")), "mpirun"};
  }
  if (auto detected = detect_slurm(get_env)) return detected;
  if (int const tasks = parse_count(get_env("PMI_SIZE")); tasks > 0) {
    return DetectedLauncher{tasks, parse_count(get_env("PMI_RANK")), "a PMI launcher"};
  }
  auto const names = find_rank_environment(get_env);
  if (int const tasks = names ? parse_count(get_env(names->size)) : 0; tasks > 0)
    return DetectedLauncher{tasks, parse_count(get_env(names->rank)), names->launcher};
  return std::nullopt;
}

bool is_step_of_several(const GetEnv& get_env) {
  auto const detected = detect_launcher(get_env);
  return detected && detected->launcher == "srun" && detected->tasks > 1;
}

std::optional<Error> check_singleton_allowed(const GetEnv& get_env) {
  auto const detected = detect_launcher(get_env);
  if (!detected || detected->tasks <= 1) return std::nullopt;
  std::string fix = "start it with srun --mpi=pmix or mpirun";
  if (detected->launcher == "srun") {
    auto const mpi_type = get_env("SLURM_MPI_TYPE");
    fix = fmt::format("add --mpi=pmix to srun{} (`srun --mpi=list` shows what this cluster has)",
                      mpi_type.empty() ? "" : ", in place of --mpi=" + mpi_type);
  } else if (detected->launcher == "mpirun") {
    fix = "use an mpirun whose PMIx this libmuster can reach, or srun --mpi=pmix";
  } else if (auto const names = find_rank_environment(get_env);
             names && names->launcher == detected->launcher) {
    fix = names->is_pod ? fmt::format("set {} to the name of rank 0's pod", names->host)
                        : "set MASTER_ADDR and MASTER_PORT too, as torchrun does";
  }
  return Error(ErrorCode::environment,
               fmt::format("{} started {} tasks but they cannot find each other and would run as {} separate "
                           "jobs: {}",
                           detected->launcher, detected->tasks, detected->tasks, fix),
               detected->rank != 0);
}

std::optional<Error> check_pmix_required(const GetEnv& get_env, const std::string& reason) {
  // A Slurm step can join without PMIx.
  auto const detected = detect_launcher(get_env);
  if (detected && detected->launcher == "srun") return std::nullopt;
  if (auto refusal = check_singleton_allowed(get_env)) return refusal;
  if (detected) return std::nullopt;
  return Error(
      ErrorCode::environment,
      fmt::format("join: PMIx is announced (PMIX_NAMESPACE is set) but did not start: {}; use a "
                  "launcher whose PMIx this libmuster can reach, or unset PMIX_NAMESPACE to run alone",
                  reason),
      get_env("PMIX_RANK") != "0");
}

Error make_pmix_timeout_error(const GetEnv& get_env, std::string_view library, const std::string& host,
                              std::chrono::milliseconds waited) {
  std::string fix = "see the log of slurmd or mpirun there";
  for (const std::string_view release : {"5.0.8", "5.0.9"})
    if (library.find(release) != std::string_view::npos)
      fix +=
          fmt::format(" (this process has PMIx {}, which does not start under Slurm before 25.11)", release);
  return Error(ErrorCode::deadline,
               fmt::format("join: the PMIx server on host {} did not answer within {}: {}", host,
                           format_duration(waited), fix),
               get_env("PMIX_RANK") != "0");
}

std::optional<Error> check_size_consistency(const GetEnv& get_env, const std::string& pmix_namespace,
                                            int pmix_size) {
  bool const of_slurm = pmix_namespace.starts_with("slurm.pmix.");
  auto const detected = of_slurm ? detect_slurm(get_env) : detect_launcher(get_env);
  // Then the server could not write the job's data.
  if (pmix_size < 1) {
    auto const folder = get_env("PMIX_SERVER_TMPDIR");
    return Error(ErrorCode::environment,
                 fmt::format("join: PMIx does not report how many ranks the job has: is {} full, or its "
                             "file system read-only?",
                             folder.empty() ? "the launcher's folder for temporary files" : folder),
                 detected && detected->rank != 0);
  }
  if (!detected || detected->tasks == pmix_size) return std::nullopt;
  // Below another launcher the step's tasks are its daemons. But below srun, a PMIx size of 1 means that each
  // task would run as a single rank.
  bool const comparable =
      of_slurm || detected->launcher == "mpirun" || (detected->launcher == "srun" && pmix_size == 1);
  if (!comparable) return std::nullopt;
  return Error(
      ErrorCode::environment,
      fmt::format("PMIx ({}) reports {} ranks but {} started {} tasks: the process was started through "
                  "something that changed "
                  "the environment; start the program itself with srun --mpi=pmix or mpirun",
                  pmix_namespace, pmix_size, detected->launcher, detected->tasks),
      detected->rank != 0);
}

}  // namespace muster::bootstrap
