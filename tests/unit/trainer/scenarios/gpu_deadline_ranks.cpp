// SPDX-License-Identifier: Apache-2.0
// gpu_deadline_ranks WHERE, on two ranks on the fakes: when another rank's data never arrives, a wait for the
// GPU is that of a communicator, which has a deadline and knows why. WHERE: "pipeline_links", while a
// pipeline is made, "pipeline_step", "pipeline_validation", or "elastic_gather", where the ranks exchange
// updated parameters. Exit code 0: each rank has got the job's error.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "content.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/pipeline/pipeline.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace small_run_of_one;
using compute::cuda::CudaCompute;

namespace {

constexpr std::chrono::seconds operation_timeout{30}, gpu_limit{60};  // the fake GPU is slow

Options tiny_run(const TemporaryFolder& folder) {
  Options options = small_run(folder);
  write_file(folder / "text", content(folder / "text").substr(0, 600));
  options.model = {2, 1, 64, 8};
  options.batch = 2;
  return options;
}

struct Training {
  TemporaryFolder folder;
  Options options = tiny_run(folder);
  std::unique_ptr<Workload> workload = read_workload(options);
  CudaCompute compute{{true, gpu_limit}};
  Replica::Settings settings{options.optimizer, options.batch, 3, 0, false, sizeof(bfloat16), true};

  void run_step(Strategy& strategy, int step) const {
    strategy.begin_step(step, step * options.batch, 1e-3, {});
    strategy.end_step();
  }
};

/// The first step allocates memory. `lose_data` is called before each part with the fault, and the rank that
/// has it.
template <typename LoseData>
void train_pipeline(Job& job, LoseData lose_data) {
  Training on;
  lose_data("pipeline_links", "lost_send", 1);
  Pipeline pipeline({pipeline::ScheduleKind::one_f_one_b}, on.settings, *on.workload, on.compute, job.world(),
                    job.host_world());
  pipeline.initialize();
  pipeline.broadcast();
  on.run_step(pipeline, 0);
  lose_data("pipeline_step", "lost_send", 1);
  on.run_step(pipeline, 1);
  lose_data("pipeline_validation", "lost_send", 0);
  Validation found = pipeline.validate_share();
  pipeline.all_reduce_validation(found);
}

/// As in an elastic run: a step whose parameters have not arrived does not end, and no other one begins.
template <typename LoseData>
void train_elastic(Job& job, LoseData lose_data) {
  Training on;
  on.settings.shard_optimizer = on.settings.update_after_reduction = true;
  Replica replica(on.settings, *on.workload, on.compute, job.world(), job.host_world());
  replica.initialize();
  replica.broadcast();
  on.run_step(replica, 0);
  lose_data("elastic_gather", "hang_broadcast", 1);
  on.run_step(replica, 1);
}

}  // namespace

int main(int, char** arguments) {
  const std::string where = arguments[1];
  const TestGpu on("", "late");
  Job job = Job::join({.operation_timeout = operation_timeout, .device = Device::cuda});
  bool are_lost = false;
  const auto lose_data = [&](const std::string& part, const char* fault, int rank) {
    if (part != where) return;
    are_lost = true;
    if (job.rank() == rank) setenv("FAKE_NCCL", fault, 1);
  };
  try {
    where == "elastic_gather" ? train_elastic(job, lose_data) : train_pipeline(job, lose_data);
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", job.rank(), error.what());
    const bool has_operations_limit = std::string(error.what()).find(" 30 s") != std::string::npos;
    return are_lost && has_operations_limit ? 0 : 1;
  }
  std::fprintf(stderr, "rank %d: no error\n", job.rank());
  return 1;
}
