// SPDX-License-Identifier: Apache-2.0
#include "launcher/local_rank.hpp"

#include <fmt/format.h>

#include <array>

#include "launcher/launch_environment.hpp"
#include "text/parse_number.hpp"

namespace muster::bootstrap {
namespace {

/// A launcher's variables.
struct VariableNames {
  const char* launcher;
  const char *local_rank, *local_size;
  const char *rank, *world_size;  ///< in the whole job
};

constexpr VariableNames torch_variables{"torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE"};
/// Hydra starts its own daemons with srun, and its processes inherit srun's variables. Slurm itself sets no
/// local rank of these.
constexpr std::array inside_slurm{
    VariableNames{"mpirun", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                  "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    VariableNames{"mpiexec", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE"},
    VariableNames{"mpirun_rsh", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
                  "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
constexpr std::array outside_slurm{
    VariableNames{"mpiexec", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE"},
    VariableNames{"a PMI launcher", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE"}};
/// Set in every process of a launcher that this file does not know the local rank of.
constexpr std::array other_launchers{"PMIX_NAMESPACE", "PMI_RANK", "FLUX_TASK_LOCAL_ID"};

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::environment, fmt::format("exec: {}; give --local-rank R --local-size N", problem));
}

bool is_set(const GetEnv& get_env, const VariableNames& names) {
  return !get_env(names.local_rank).empty() || !get_env(names.local_size).empty();
}

int parse(const std::string& name, const std::string& text, int lowest) {
  auto const value = parse_number<int>(text);
  if (!value || *value < lowest) fail(fmt::format("{}='{}' is not a number from {} on", name, text, lowest));
  return *value;
}

/// The whole job's numbers, which may be missing.
void read_job(const GetEnv& get_env, const char* rank, const char* world_size, LocalRank& found) {
  auto const rank_text = get_env(rank), size_text = get_env(world_size);
  if (rank_text.empty() || size_text.empty()) return;
  found.rank = parse(rank, rank_text, 0);
  found.world_size = parse(world_size, size_text, 1);
}

void read_variables(const GetEnv& get_env, const VariableNames& names, const GivenLocalRank& given,
                    LocalRank& found) {
  found.launcher = names.launcher;
  auto const rank = get_env(names.local_rank), size = get_env(names.local_size);
  if ((rank.empty() && !given.rank) || (size.empty() && !given.size))
    fail(fmt::format("{} is set without {}", size.empty() ? names.local_rank : names.local_size,
                     size.empty() ? names.local_size : names.local_rank));
  if (!given.rank) found.local_rank = parse(names.local_rank, rank, 0);
  if (!given.size) found.local_size = parse(names.local_size, size, 1);
  read_job(get_env, names.rank, names.world_size, found);
}

bool is_slurm_step(const GetEnv& get_env) {
  return !get_env("SLURM_STEP_ID").empty() && !get_env("SLURM_PROCID").empty();
}

void read_slurm(const GetEnv& get_env, const GivenLocalRank& given, LocalRank& found) {
  found.launcher = "srun";
  if (!given.rank) found.local_rank = parse("SLURM_LOCALID", get_env("SLURM_LOCALID"), 0);
  read_job(get_env, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", found);
  if (given.size) return;
  auto const list = get_env("SLURM_STEP_TASKS_PER_NODE");
  auto const node = static_cast<std::size_t>(parse("SLURM_NODEID", get_env("SLURM_NODEID"), 0));
  auto const counts = parse_task_counts(list);
  if (node >= counts.size() || counts[node] < 1)
    fail(fmt::format("SLURM_STEP_TASKS_PER_NODE='{}' does not count the tasks of node {}", list, node));
  found.local_size = counts[node];
}

void require_no_launcher(const GetEnv& get_env) {
  if (auto const detected = detect_launcher(get_env); detected && detected->tasks > 1)
    fail(fmt::format("{} started {} processes and does not say which one of this host this is",
                     detected->launcher, detected->tasks));
  for (const char* name : other_launchers)
    if (!get_env(name).empty())
      fail(fmt::format("{} is set, but no variable of a launcher says which process of this host this is",
                       name));
}

/// LOCAL_RANK beside another launcher's variables. The plugin's LOCAL_RANK belongs to the outer Slurm task.
void check_torch_variables(const GetEnv& get_env, const LocalRank& found) {
  auto const rank = get_env(torch_variables.local_rank), size = get_env(torch_variables.local_size);
  if (rank.empty() || size.empty()) return;
  if (rank == std::to_string(found.local_rank) && size == std::to_string(found.local_size)) return;
  if (("," + get_env("MUSTER_SET") + ",").find(",LOCAL_RANK,") != std::string::npos) return;
  fail(fmt::format("LOCAL_RANK={} and LOCAL_WORLD_SIZE={}, but {} made this process {} of {} on this host",
                   rank, size, found.launcher, found.local_rank, found.local_size));
}

void read_launcher(const GetEnv& get_env, const GivenLocalRank& given, LocalRank& found) {
  if (is_below_torchrun(get_env)) return read_variables(get_env, torch_variables, given, found);
  auto const read_first = [&](const auto& launchers) {
    for (const auto& names : launchers) {
      if (!is_set(get_env, names)) continue;
      read_variables(get_env, names, given, found);
      return true;
    }
    return false;
  };
  bool known = read_first(inside_slurm);
  if (!known && is_slurm_step(get_env)) {
    read_slurm(get_env, given, found);
    known = true;
  }
  known = known || read_first(outside_slurm);
  if (known && !given.rank && !given.size) return check_torch_variables(get_env, found);
  if (known) return;
  if (is_set(get_env, torch_variables)) {
    read_variables(get_env, torch_variables, given, found);
    found.launcher = "LOCAL_RANK";
  } else if (auto const names = find_rank_environment(get_env); names && names->is_pod) {
    found.launcher = names->launcher;  // one process in each pod
  } else {
    require_no_launcher(get_env);
  }
}

}  // namespace

LocalRank find_local_rank(const GetEnv& get_env, const GivenLocalRank& given) {
  LocalRank found;
  // The job's rank and size do not belong to a number that the user made up.
  if (!given.rank || !given.size) read_launcher(get_env, given, found);
  if (given.rank) found.local_rank = *given.rank;
  if (given.size) found.local_size = *given.size;
  if (found.local_rank >= found.local_size)
    fail(fmt::format("local rank {} of {} processes on this host: ranks count from 0", found.local_rank,
                     found.local_size));
  if (found.world_size > 0 && (found.local_size > found.world_size || found.rank >= found.world_size))
    fail(fmt::format("{} of {} processes are on this host, but the job has {}", found.local_rank,
                     found.local_size, found.world_size));
  return found;
}

}  // namespace muster::bootstrap
