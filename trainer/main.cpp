// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "config/options.hpp"
#include "make_data.hpp"
#include "muster/muster.hpp"
#include "report/scaling.hpp"
#include "run/choose_device.hpp"
#include "run/trainer.hpp"
#include "run/omp_wait_policy.hpp"
#include "training/collective_errors.hpp"

namespace {

/// Before joining, only the launcher's variables tell which rank this is.
bool is_zero_for_launcher(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  }
  return true;
}
bool is_first_rank() {
  return is_zero_for_launcher({"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "RANK"});
}
bool is_first_rank_of_host() {
  return is_zero_for_launcher({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "LOCAL_RANK"});
}

/// How long the others wait: a launcher ends the job with the first process, and the machine may be busy.
constexpr unsigned silent_grace_s = 5;

/// Every rank has the same wrong options: the first one says so, and the others give it the time to before a
/// launcher kills the job. A settings file may be missing on one host only, whose first rank says so.
int refuse_options(const muster::Error& error) {
  if (is_first_rank() || (error.code() == muster::ErrorCode::system && is_first_rank_of_host())) {
    muster::print_failure(error.what());
  } else {
    ::sleep(silent_grace_s);
  }
  return error.exit_code();
}

int run(const muster::Options& options) {
  const muster::ChosenDevice chosen = muster::choose_device(options);
  muster::Job job = muster::Job::join({.device = chosen.device});
  muster::Options settled = options;
  if (job.on_gpu()) settled.dtype = "bf16";
  const muster::Hello& self = job.roster()[static_cast<std::size_t>(job.rank())];
  if (job.rank() == 0 && !self.gpu.empty() && !chosen.why_no_gpu.empty())
    std::printf("note: computing on the CPU: %s\n", chosen.why_no_gpu.c_str());
  int code = 0;
  try {
    code = muster::train(settled, job);
  } catch (const muster::EndedTogether& ended) {
    code = ended.exit_code();
  }
  job.leave();
  return code;
}

/// What stands beside training and takes no job.
int run_alone(int (*command)(int, const char* const*), int argc, char** argv) {
  try {
    return command(argc, argv);
  } catch (const std::exception& error) {
    muster::print_failure(error.what());
    return muster::exit_code_of(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "make-data") return run_alone(muster::make_data, argc - 1, argv + 1);
  if (first == "scaling") return run_alone(muster::scaling_command, argc - 1, argv + 1);
  muster::settle_wait_policy(argv);
  std::optional<muster::Options> options;
  try {
    options = muster::parse_options(argc, argv);
  } catch (const muster::Error& error) {
    return refuse_options(error);
  }
  if (!options) return 0;
  try {
    return run(*options);
  } catch (const std::exception& error) {
    const auto* code = dynamic_cast<const muster::Error*>(&error);
    if (code == nullptr || !code->reported_elsewhere()) muster::print_failure(error.what());
    return muster::exit_code_of(error);
  }
}
