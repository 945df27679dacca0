// SPDX-License-Identifier: Apache-2.0
// When a GPU's work never ends, local SGD's waits for it are those of the communicator, which knows why.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "content.hpp"
#include "strategies/local_sgd/local_sgd.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace small_run_of_one;
using compute::cuda::CudaCompute;

namespace {

struct FakeNccl {
  FakeNccl() { setenv("MUSTER_NCCL_LIBRARY", FAKE_NCCL_FILE, 1); }
  ~FakeNccl() { unsetenv("MUSTER_NCCL_LIBRARY"); }
};

Options worker_run(const TemporaryFolder& folder) {
  Options options = small_run(folder);
  write_file(folder / "text", content(folder / "text").substr(0, 600));  // the fake GPU is slow
  options.model = {1, 1, 64, 8};
  options.batch = 4;
  return options;
}

/// Averages after each step.
struct OneWorker {
  OneWorker(bool nesterov, bool elastic)
      : local({1, {nesterov}, elastic},
              {options.optimizer, options.batch, 3, 0, false, sizeof(bfloat16), true}, *workload, compute,
              job.world(), job.host_world()) {
    local.initialize();
    local.broadcast();
    local.begin_step(0, 0, 1e-3, {});
    CHECK(local.end_step().finite);
    setenv("FAKE_CUDA", "stream_busy", 1);
  }
  ~OneWorker() { setenv("FAKE_CUDA", "", 1); }

  TestGpu on;
  FakeNccl nccl;
  TemporaryFolder folder;
  Job job = Job::join({.operation_timeout = std::chrono::seconds(3), .device = Device::cuda});
  Options options = worker_run(folder);
  std::unique_ptr<Workload> workload = read_workload(options);
  CudaCompute compute{{true, std::chrono::seconds(5)}};
  LocalSgd local;
};

const auto ends_in_time = Catch::Matchers::ContainsSubstring("did not complete within 3 s");

}  // namespace

TEST_CASE("an outer step has the communicator's deadline", "[gpu steps]") {
  OneWorker worker(true, false);
  CHECK_THROWS_WITH(worker.local.begin_step(1, 4, 1e-3, {}), ends_in_time);
}

TEST_CASE("a copy for lost ranks has the communicator's deadline", "[gpu steps]") {
  OneWorker worker(false, true);
  CHECK_THROWS_WITH(worker.local.begin_step(1, 4, 1e-3, {}), ends_in_time);
}

TEST_CASE("a copy for a checkpoint has the communicator's deadline", "[gpu steps]") {
  OneWorker worker(false, false);
  std::vector<float> parameters(worker.local.table().arena_size), moment1(parameters), moment2(parameters);
  CHECK_THROWS_WITH(worker.local.gather_state({parameters, moment1, moment2, {}}), ends_in_time);
}
