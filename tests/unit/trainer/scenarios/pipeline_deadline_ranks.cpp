// SPDX-License-Identifier: Apache-2.0
// pipeline_deadline_ranks WHERE, on two ranks on the fakes: when a message between stages never arrives, a
// pipeline's wait for its GPU is that of a communicator, which has a deadline and knows why. WHERE: "links",
// while the pipeline is made, "step" or "validation". Exit code 0: each rank has got the job's error.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "content.hpp"
#include "strategies/pipeline/pipeline.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace small_run_of_one;
using compute::cuda::CudaCompute;

namespace {

constexpr std::chrono::seconds operation_timeout{10}, gpu_limit{20};

Options tiny_run(const TemporaryFolder& folder) {
  Options options = small_run(folder);
  write_file(folder / "text", content(folder / "text").substr(0, 600));  // the fake GPU is slow
  options.model = {2, 1, 64, 8};
  options.batch = 2;
  return options;
}

/// Trains two steps, of which the first allocates memory, and validates. `lose_messages` is called before
/// each part.
template <typename LoseMessages>
void train(Job& job, LoseMessages lose_messages) {
  const TemporaryFolder folder;
  const Options options = tiny_run(folder);
  const std::unique_ptr<Workload> workload = read_workload(options);
  CudaCompute compute({true, gpu_limit});
  lose_messages("links", 1);
  Pipeline pipeline({pipeline::ScheduleKind::one_f_one_b},
                    {options.optimizer, options.batch, 3, 0, false, sizeof(bfloat16), true}, *workload,
                    compute, job.world(), job.host_world());
  pipeline.initialize();
  pipeline.broadcast();
  for (int step = 0; step < 2; ++step) {
    if (step == 1) lose_messages("step", 1);
    pipeline.begin_step(step, step * options.batch, 1e-3, {});
    pipeline.end_step();
  }
  lose_messages("validation", 0);
  Validation found = pipeline.validate_share();
  pipeline.all_reduce_validation(found);
}

}  // namespace

int main(int, char** arguments) {
  const std::string where = arguments[1];
  const TestGpu on("", "late");
  Job job = Job::join({.operation_timeout = operation_timeout, .device = Device::cuda});
  bool are_lost = false;
  try {
    train(job, [&](const std::string& part, int sender) {
      if (part != where) return;
      are_lost = true;
      if (job.rank() == sender) setenv("FAKE_NCCL", "lost_send", 1);
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", job.rank(), error.what());
    const bool has_operations_limit = std::string(error.what()).find(" 10 s") != std::string::npos;
    return are_lost && has_operations_limit ? 0 : 1;
  }
  std::fprintf(stderr, "rank %d: no error\n", job.rank());
  return 1;
}
