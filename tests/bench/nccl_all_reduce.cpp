// SPDX-License-Identifier: Apache-2.0
// The time from join() to the first all-reduce on GPU memory, and all-reduce times as nccl-tests defines
// them: on_ranks N bench_nccl_all_reduce [MOST_BYTES] (or mpirun -n N), 256 MiB by default. Times are the
// slowest rank's; rank 0 prints. Several ranks on one GPU share it in turns and communicate through sockets
// (tests/gpu/one_gpu.hpp): then this does not measure NCCL on separate GPUs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "muster/muster.hpp"
#include "one_gpu.hpp"

using namespace muster;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

double slowest(Communicator& world, double ms) {
  static double* place = nullptr;
  if (place == nullptr) one_gpu::check(cudaMalloc(reinterpret_cast<void**>(&place), sizeof ms));
  one_gpu::check(cudaMemcpy(place, &ms, sizeof ms, cudaMemcpyHostToDevice));
  world.all_reduce(std::span<double>(place, 1), Reduction::max);
  world.synchronize();
  one_gpu::check(cudaMemcpy(&ms, place, sizeof ms, cudaMemcpyDeviceToHost));
  return ms;
}

// Times operations back to back on one stream, as nccl-tests does: the median of `repeats`, in ms per
// operation.
double measure_ms(Communicator& world, std::span<float> data, int operations, int repeats) {
  std::vector<float> const ones(data.size(), 1.0f);
  std::vector<double> times;
  for (int repeat = 0; repeat <= repeats; ++repeat) {  // the first one warms up
    one_gpu::check(cudaMemcpy(data.data(), ones.data(), data.size_bytes(), cudaMemcpyHostToDevice));
    world.barrier();
    auto const begin = Clock::now();
    for (int i = 0; i < operations; ++i) world.all_reduce(data);
    world.synchronize();
    double const ms = slowest(world, ms_since(begin)) / operations;
    if (repeat > 0) times.push_back(ms);
    float sum = 0;
    one_gpu::check(cudaMemcpy(&sum, &data.back(), sizeof sum, cudaMemcpyDeviceToHost));
    if (sum != std::pow(static_cast<float>(world.size()), static_cast<float>(operations)))
      throw std::runtime_error("an all-reduce gave another sum");
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

double time_once(Communicator& world, std::span<float> data) {
  auto const begin = Clock::now();
  world.all_reduce(data);
  world.synchronize();
  return ms_since(begin);
}

// Prints whether the first operations are slower than later ones: of one float, and of all `data`, for which
// NCCL uses another algorithm.
void print_start(Job& job, Communicator& world, std::span<float> data, double joined, double connected) {
  double const small[] = {time_once(world, data.first(1)), time_once(world, data.first(1))};
  double const large[] = {time_once(world, data), time_once(world, data)};
  const auto& timings = job.timings();
  const std::pair<const char*, double> lines[] = {{"join", joined},
                                                  {"  finding the job", timings.bootstrap.count()},
                                                  {"  CUDA and NCCL loaded, GPU taken", timings.gpu.count()},
                                                  {"  exchange of hellos", timings.exchange.count()},
                                                  {"  control plane", timings.plane.count()},
                                                  {"world communicator", connected},
                                                  {"  NCCL id", timings.nccl_id.count()},
                                                  {"  NCCL initialisation", timings.nccl_init.count()},
                                                  {"  first collective", timings.first_collective.count()},
                                                  {"then: all-reduce of 4 bytes", small[0]},
                                                  {"  once more", small[1]},
                                                  {"all-reduce of the largest size", large[0]},
                                                  {"  once more", large[1]}};
  if (job.rank() == 0) std::printf("ranks %d  NCCL %s\n", job.size(), job.roster()[0].nccl_version.c_str());
  for (const auto& [what, ms] : lines) {
    double const most = slowest(world, ms);
    if (job.rank() == 0) std::printf("ranks %d  %-34s %9.2f ms\n", job.size(), what, most);
  }
}

int run(int gpus, std::size_t most) {
  auto const begin = Clock::now();
  auto job = Job::join({.device = Device::cuda});
  double const joined = ms_since(begin);
  one_gpu::select_gpu(gpus, job.local_rank());
  auto world = job.world();
  double const connected = ms_since(begin);
  float* memory = nullptr;
  one_gpu::check(cudaMalloc(reinterpret_cast<void**>(&memory), most));
  auto const numbers = one_gpu::random_floats(most / sizeof(float));
  one_gpu::check(cudaMemcpy(memory, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice));
  print_start(job, world, {memory, most / sizeof(float)}, joined, connected - joined);
  for (std::size_t bytes = 8; bytes <= most; bytes = bytes == 8 ? std::size_t{1} << 20 : bytes * 256) {
    int const operations = bytes > std::size_t{1} << 20 ? 4 : 16;
    double const ms = measure_ms(world, {memory, bytes / sizeof(float)}, operations, 5);
    double const rate = static_cast<double>(bytes) / ms / 1e6;
    // With one rank an in-place all-reduce does nothing: this is the cost of the call.
    if (job.rank() == 0) std::printf("ranks %d  %9zu bytes  %10.4f ms", job.size(), bytes, ms);
    if (job.rank() == 0 && job.size() > 1)
      std::printf("  algorithm bandwidth %8.3f GB/s  bus bandwidth %8.3f GB/s", rate,
                  rate * 2 * (job.size() - 1) / job.size());
    if (job.rank() == 0) std::printf("\n");
  }
  cudaFree(memory);
  auto const leaving = Clock::now();
  job.leave();
  if (job.rank() == 0) std::printf("ranks %d  leave %.1f ms\n", job.size(), ms_since(leaving));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a benchmark that is killed leaves what it has measured
  int const gpus = one_gpu::count_gpus();
  if (gpus == 0) return 77;
  one_gpu::share_only_gpu(gpus);
  try {
    return run(gpus, argc > 1 ? std::stoul(argv[1]) : std::size_t{256} << 20);
  } catch (const Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
