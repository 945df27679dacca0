// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "config/elastic_range.hpp"
#include "config/options.hpp"
#include "evaluate_command.hpp"
#include "export_command.hpp"
#include "generation/generate_command.hpp"
#include "make_data.hpp"
#include "muster/muster.hpp"
#include "report/scaling.hpp"
#include "run/choose_device.hpp"
#include "run/join_folder.hpp"
#include "run/omp_wait_policy.hpp"
#include "run/open_gpu.hpp"
#include "run/prepare_run.hpp"
#include "run/trainer.hpp"
#include "tokenize_command.hpp"
#include "training/collective_errors.hpp"
#include "training/workload.hpp"

namespace {

/// Before the job is joined, the rank is known only from the launcher's variables.
bool launcher_rank_is_zero(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  }
  return true;
}
bool is_rank0() {
  return launcher_rank_is_zero({"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "RANK"});
}
bool is_local_rank0() {
  return launcher_rank_is_zero({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "LOCAL_RANK"});
}

/// Time that the other ranks wait before they exit, because the launcher kills the job when the first process
/// exits. Long enough for a busy machine.
constexpr unsigned error_grace_s = 5;

/// Every rank sees the same wrong options. Rank 0 prints the error; the other ranks wait so that the launcher
/// does not kill the job before. A settings file can be missing on one host alone; then the first rank of
/// that host prints the error.
int report_option_error(const muster::Error& error) {
  if (is_rank0() || (error.code() == muster::ErrorCode::system && is_local_rank0())) {
    muster::print_error(error.what());
  } else {
    ::sleep(error_grace_s);
  }
  return error.exit_code();
}

muster::JoinOptions join_options(const muster::Options& options, muster::Device device) {
  muster::JoinOptions join{.device = device};
  join.tolerate_rank_loss = elastic_range(options).least > 0 || options.strategy == "parameter-server";
  if (options.strategy == "parameter-server") join.cpu_ranks = options.servers;
  if (elastic_range(options).least > 0)
    join.abort_grace = std::chrono::milliseconds(0);  // a step may take longer
  return join;
}

/// Says why a placed GPU is not used.
void print_cpu_note(const muster::Job& job, const muster::ChosenDevice& chosen) {
  const muster::Hello& self = job.roster()[static_cast<std::size_t>(job.rank())];
  if (job.rank() == 0 && !self.gpu.empty() && !chosen.no_gpu_reason.empty())
    std::printf("note: computing on the CPU: %s\n", chosen.no_gpu_reason.c_str());
}

/// When train() has returned, the run has ended on all ranks: a rank that is lost later takes nothing along.
void leave(muster::Job& job, const muster::Options& options) {
  try {
    job.leave();
  } catch (const muster::Error& error) {
    if (elastic_range(options).least == 0 || error.code() != muster::ErrorCode::lost_rank) throw;
    if (!error.reported_elsewhere()) std::printf("warning: %s: the run had ended\n", error.what());
  }
}

/// With --join the job is that of a run that is under way.
muster::Job join_job(const muster::Options& options, muster::Device device) {
  const muster::JoinOptions join = join_options(options, device);
  if (!options.join) return muster::Job::join(join);
  const auto workload = muster::read_workload(options);
  const muster::RunFingerprint own = muster::fingerprint(options, *workload);
  const char* const placed = std::getenv("MUSTER_GPUS");
  const std::string gpus = placed == nullptr ? "" : placed;
  while (true) {
    const auto [invitation, gpu] = muster::request_invitation(options, own, gpus);
    if (!gpu.empty()) {
      std::printf("--join: GPU %s is placed for this process\n", gpu.c_str());
      std::fflush(stdout);
      ::setenv("MUSTER_GPUS", gpu.c_str(), 1);  // for Job::join()
    }
    try {
      return muster::Job::join(join, invitation);
    } catch (const muster::Error& error) {
      // The link broke meanwhile, or a rank was lost: the run goes on without this process.
      if (error.code() != muster::ErrorCode::deadline && error.code() != muster::ErrorCode::lost_rank) throw;
      std::printf("warning: --join: %s: asks again\n", error.what());
      std::fflush(stdout);
    }
  }
}

int run(const muster::Options& options) {
  const muster::ChosenDevice chosen = muster::choose_device(options);
  muster::Job job = join_job(options, chosen.device);
  muster::Options final_options = options;
  if (computes_on_gpus(job)) final_options.dtype = "bf16";
  print_cpu_note(job, chosen);
  int code = 0;
  try {
    code = muster::train(final_options, job);
  } catch (const muster::CollectiveAbort& ended) {
    code = ended.exit_code();
  }
  leave(job, options);
  return code;
}

int train_command(int argc, char** argv) {
  muster::set_omp_wait_policy(argv);
  std::optional<muster::Options> options;
  try {
    options = muster::parse_options(argc, argv);
  } catch (const muster::Error& error) {
    return report_option_error(error);
  }
  return options ? run(*options) : 0;
}

int evaluate_command(int argc, char** argv) {
  muster::set_omp_wait_policy(argv);
  std::optional<muster::EvaluateOptions> options;
  muster::ChosenDevice chosen;
  try {
    options = muster::parse_evaluate_options(argc - 1, argv + 1);
    if (options) chosen = muster::choose_device(*options);
  } catch (const muster::Error& error) {
    return report_option_error(error);
  }
  if (!options) return 0;
  muster::Job job = muster::Job::join({.device = chosen.device});
  print_cpu_note(job, chosen);
  int code = 0;
  try {
    muster::evaluate(*options, job);
  } catch (const muster::CollectiveAbort& ended) {
    code = ended.exit_code();
  }
  job.leave();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    if (command == "make-data") return muster::make_data(argc - 1, argv + 1);
    if (command == "evaluate") return evaluate_command(argc, argv);
    if (command == "export") return muster::export_command(argc - 1, argv + 1);
    if (command == "generate") {
      muster::set_omp_wait_policy(argv);
      return muster::generate_command(argc - 1, argv + 1);
    }
    if (command == "scaling") return muster::scaling_command(argc - 1, argv + 1);
    if (command == "tokenize") return muster::tokenize_command(argc - 1, argv + 1);
    return train_command(argc, argv);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const muster::Error*>(&error);
    if (known == nullptr || !known->reported_elsewhere()) muster::print_error(muster::describe_error(error));
    return muster::exit_code_for(error);
  }
}
