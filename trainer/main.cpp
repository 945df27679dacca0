// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "agreement.hpp"
#include "make_data.hpp"
#include "muster/muster.hpp"
#include "options.hpp"
#include "trainer.hpp"
#include "wait_policy.hpp"

namespace {

/// Before joining, only the launcher's variables tell which rank this is.
bool is_first_rank_of_launcher() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "RANK"}) {
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  }
  return true;
}

/// Every rank has the same wrong options: the first one says so, and the others give it the time to before a
/// launcher kills the job.
int refuse_options(const muster::Error& error) {
  if (is_first_rank_of_launcher()) {
    muster::print_failure(error.what());
  } else {
    ::usleep(300'000);
  }
  return error.exit_code();
}

/// The one thing beside training; it takes no job.
int make_data_alone(int argc, char** argv) {
  try {
    return muster::make_data(argc, argv);
  } catch (const std::exception& error) {
    muster::print_failure(error.what());
    return muster::exit_code_of(error);
  }
}

int run(const muster::Options& options) {
  muster::Job job = muster::Job::join({.device = options.device});
  int code = 0;
  try {
    code = muster::train(options, job);
  } catch (const muster::EndedTogether& ended) {
    code = ended.exit_code();
  }
  job.leave();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "make-data") == 0) return make_data_alone(argc - 1, argv + 1);
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
    const auto* fault = dynamic_cast<const muster::Error*>(&error);
    if (fault == nullptr || !fault->repeated()) muster::print_failure(error.what());
    return muster::exit_code_of(error);
  }
}
