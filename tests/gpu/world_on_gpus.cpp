// SPDX-License-Identifier: Apache-2.0
// The real NCCL through libmuster, against plain references: on_ranks N test_gpu (or mpirun -n N), on one GPU
// (one_gpu.hpp describes what that covers) or more. Without a GPU it prints so and returns exit code 77.
#include "one_gpu.hpp"
#include "run_tests.hpp"
#include "runtime/scenarios/exit_code.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;

namespace {
Job* joined = nullptr;
}

Job& job() { return *joined; }

int main(int argc, char** argv) {
  int const gpus = one_gpu::count_gpus();
  if (gpus == 0) return 77;
  one_gpu::share_only_gpu(gpus);
  return exit_code_of(argv[0], [&] {
    auto here = Job::join({.deadline = std::chrono::seconds(60),
                           .operation_timeout = std::chrono::seconds(60),
                           .device = Device::cuda});
    joined = &here;
    one_gpu::select_gpu(gpus, here.local_rank());
    int const failed = run_tests(argc, argv);
    here.leave();
    return failed;
  });
}
