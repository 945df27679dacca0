// SPDX-License-Identifier: Apache-2.0
// The time of a reducer step on GPU memory, by mode, with no computation to overlap: on_ranks N
// bench_nccl_reducer [BYTES] (or mpirun -n N), 256 MiB of gradients by default. The median of 20 steps, the
// slowest rank's; rank 0 prints. Several ranks on one GPU share it in turns and communicate through sockets
// (tests/gpu/one_gpu.hpp).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "muster/muster.hpp"
#include "one_gpu.hpp"

using namespace muster;

namespace {

using Clock = std::chrono::steady_clock;

// The time of one step in ms, from its first ready() until the GPU is done.
double measure_ms(Communicator& world, Reducer& reducer) {
  constexpr int steps = 20;
  std::vector<double> times;
  auto const numbers = one_gpu::random_floats(reducer.gradient(0).size());
  for (int step = -3; step < steps; ++step) {  // the first ones warm up
    for (std::size_t i = 0; i < reducer.parameters(); ++i)
      one_gpu::check(cudaMemcpy(reducer.gradient(i).data(), numbers.data(), reducer.gradient(i).size_bytes(),
                                cudaMemcpyHostToDevice));
    world.barrier();
    auto const begin = Clock::now();
    for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk)
      for (std::size_t i = reducer.parameters(); i-- > 0;) reducer.ready(i);
    reducer.finish();
    world.synchronize();
    if (step >= 0) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  return times[steps / 2];
}

void bench(Job& job, std::size_t bytes) {
  auto world = job.world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  std::vector<std::size_t> const sizes(96, bytes / sizeof(float) / 96);
  struct Mode {
    const char* name;
    ReducerOptions options;
  };
  std::size_t const bucket = std::size_t{25} << 20;
  const Mode modes[] = {
      {"float32", {.bucket_bytes = bucket}},
      {"bfloat16", {.bucket_bytes = bucket, .bfloat16 = true}},
      {"deterministic, a chunk a rank", {.bucket_bytes = bucket, .chunks = ranks}},
      {"deterministic, 4 chunks a rank", {.bucket_bytes = bucket, .chunks = 4 * ranks}},
  };
  if (world.rank() == 0)
    std::printf("%-32s %10s  (%d ranks, %zu MiB)\n", "a step of the reducer", "ms", world.size(),
                bytes >> 20);
  for (const auto& mode : modes) {
    Reducer reducer(world, sizes, mode.options);
    double slowest = measure_ms(world, reducer);
    job.host_world().all_reduce(std::span(&slowest, 1), Reduction::max);
    if (world.rank() == 0) std::printf("%-32s %10.3f\n", mode.name, slowest);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a benchmark that is killed leaves what it has measured
  int const gpus = one_gpu::count_gpus();
  if (gpus == 0) return 77;
  one_gpu::share_only_gpu(gpus);
  try {
    auto job = Job::join({.device = Device::cuda});
    one_gpu::select_gpu(gpus, job.local_rank());
    bench(job, argc > 1 ? std::stoull(argv[1]) : std::size_t{256} << 20);
    job.leave();
    return 0;
  } catch (const Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
