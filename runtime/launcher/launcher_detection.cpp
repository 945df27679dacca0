// SPDX-License-Identifier: Apache-2.0
#include "launcher/launcher_detection.hpp"

#include <fmt/format.h>

#include <charconv>

#include "deadline.hpp"

namespace muster::bootstrap {
namespace {

// 0 for anything that is not a whole number.
int count_in(const std::string& text) {
  int value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

std::optional<DetectedLauncher> slurm_claim(const GetEnv& variable) {
  if (variable("SLURM_STEP_ID").empty() || variable("SLURM_PROCID").empty()) return std::nullopt;
  int const tasks = count_in(variable("SLURM_STEP_NUM_TASKS"));
  if (tasks < 1) return std::nullopt;
  return DetectedLauncher{tasks, count_in(variable("SLURM_PROCID")), "srun"};
}

}  // namespace

std::optional<DetectedLauncher> detect_launcher(const GetEnv& variable) {
  if (int const tasks = count_in(variable("OMPI_COMM_WORLD_SIZE")); tasks > 0) {
    return DetectedLauncher{tasks, count_in(variable("OMPI_COMM_WORLD_RANK")), "mpirun"};
  }
  if (auto const claim = slurm_claim(variable)) return claim;
  if (int const tasks = count_in(variable("PMI_SIZE")); tasks > 0) {
    return DetectedLauncher{tasks, count_in(variable("PMI_RANK")), "a PMI launcher"};
  }
  if (int const tasks = count_in(variable("WORLD_SIZE")); tasks > 0 && !variable("RANK").empty()) {
    return DetectedLauncher{tasks, count_in(variable("RANK")), "RANK and WORLD_SIZE"};
  }
  return std::nullopt;
}

bool is_step_of_several(const GetEnv& variable) {
  auto const claim = detect_launcher(variable);
  return claim && claim->launcher == "srun" && claim->tasks > 1;
}

std::optional<Error> check_singleton_allowed(const GetEnv& variable) {
  auto const claim = detect_launcher(variable);
  if (!claim || claim->tasks <= 1) return std::nullopt;
  std::string cure = "start it with srun --mpi=pmix or mpirun";
  if (claim->launcher == "srun") {
    auto const now = variable("SLURM_MPI_TYPE");
    cure = fmt::format("add --mpi=pmix to srun{} (`srun --mpi=list` shows what this cluster has)",
                       now.empty() ? "" : ", in place of --mpi=" + now);
  } else if (claim->launcher == "mpirun") {
    cure = "use an mpirun whose PMIx this libmuster can reach, or srun --mpi=pmix";
  } else if (claim->launcher == "RANK and WORLD_SIZE") {
    cure = "set MASTER_ADDR and MASTER_PORT too, as torchrun does";
  }
  return Error(ErrorCode::environment,
               fmt::format("{} started {} tasks but they cannot find each other and would run as {} separate "
                           "jobs: {}",
                           claim->launcher, claim->tasks, claim->tasks, cure),
               claim->rank != 0);
}

std::optional<Error> check_pmix_required(const GetEnv& variable, const std::string& reason) {
  // A step of Slurm's can meet without PMIx.
  auto const claim = detect_launcher(variable);
  if (claim && claim->launcher == "srun") return std::nullopt;
  if (auto refusal = check_singleton_allowed(variable)) return refusal;
  if (claim) return std::nullopt;
  return Error(
      ErrorCode::environment,
      fmt::format("join: PMIx is announced (PMIX_NAMESPACE is set) but did not start: {}; use a "
                  "launcher whose PMIx this libmuster can reach, or unset PMIX_NAMESPACE to run alone",
                  reason),
      variable("PMIX_RANK") != "0");
}

Error silence_of_pmix(const GetEnv& variable, std::string_view library, const std::string& host,
                      std::chrono::milliseconds waited) {
  std::string cure = "see the log of slurmd or mpirun there";
  for (const std::string_view release : {"5.0.8", "5.0.9"})
    if (library.find(release) != std::string_view::npos)
      cure +=
          fmt::format(" (this process has PMIx {}, which does not start under Slurm before 25.11)", release);
  return Error(ErrorCode::deadline,
               fmt::format("join: the PMIx server on host {} did not answer within {}: {}", host,
                           text_of(waited), cure),
               variable("PMIX_RANK") != "0");
}

std::optional<Error> check_size_consistency(const GetEnv& variable, const std::string& pmix_namespace,
                                             int pmix_size) {
  bool const of_slurm = pmix_namespace.starts_with("slurm.pmix.");
  auto const claim = of_slurm ? slurm_claim(variable) : detect_launcher(variable);
  if (!claim || claim->tasks == pmix_size) return std::nullopt;
  // Below another launcher the tasks of the step are its daemons; but ranks that each count one are alone.
  bool const binds = of_slurm || claim->launcher == "mpirun" || (claim->launcher == "srun" && pmix_size == 1);
  if (!binds) return std::nullopt;
  return Error(ErrorCode::environment,
               fmt::format("PMIx ({}) says {} ranks but {} started {} tasks: the process was started through "
                           "something that changed "
                           "the environment; start the program itself with srun --mpi=pmix or mpirun",
                           pmix_namespace, pmix_size, claim->launcher, claim->tasks),
               claim->rank != 0);
}

}  // namespace muster::bootstrap
