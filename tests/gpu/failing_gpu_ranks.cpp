// SPDX-License-Identifier: Apache-2.0
// A job on the real NCCL whose last rank fails: on_ranks N failing_gpu_ranks WHAT. The other ranks name it in
// one line, abort their communicators and end, all within seconds. The last rank
//   killed        is killed while the others reduce
//   elsewhere     does not enter an all-reduce that the others wait in
//   unsplit       does not enter a split
//   missing       does not create the world communicator
//   init_stopped  is stopped while NCCL initialises, so that NCCL would wait for it for ever
//   init_killed   is killed while NCCL initialises
//   unwatched     does not enter an all-reduce that the others wait for in CUDA itself
//   shrunk        is killed, and the others go on without it
//   pointer       gives NCCL an invalid address
//   shared        shares a GPU with the others, which NCCL has not been configured to allow
// Without a GPU it prints so and returns exit code 77.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "muster/muster.hpp"
#include "one_gpu.hpp"
#include "runtime/scenarios/exit_code.hpp"

using namespace std::chrono_literals;

namespace {

// Stops the whole process with NCCL's threads. A child kills it after the others have ended.
void stop_after(std::chrono::microseconds time) {
  signal(SIGALRM, [](int) { raise(SIGSTOP); });
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sleep(20);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  ualarm(static_cast<useconds_t>(time.count()), 0);
}

double ms_since(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

// Shrinks to the remaining ranks, and checks their sum. `first_world_ms`: how long the job's first world
// took.
int continue_after_shrink(muster::Job& job, double first_world_ms) {
  int const before = job.size();
  auto const lost = std::chrono::steady_clock::now();
  job.shrink();
  double const shrink_ms = ms_since(lost);
  auto const shrunk = std::chrono::steady_clock::now();
  auto world = job.world();
  double const world_ms = ms_since(shrunk);
  std::vector<float> sums(1000, static_cast<float>(world.rank() + 1));
  float* data = nullptr;
  std::size_t const bytes = sums.size() * sizeof(float);
  one_gpu::check(cudaMalloc(reinterpret_cast<void**>(&data), bytes));
  one_gpu::check(cudaMemcpy(data, sums.data(), bytes, cudaMemcpyHostToDevice));
  world.all_reduce(std::span<float>(data, sums.size()));
  world.synchronize();
  one_gpu::check(cudaMemcpy(sums.data(), data, bytes, cudaMemcpyDeviceToHost));
  auto const expected = static_cast<float>(world.size() * (world.size() + 1)) / 2;
  bool const right = std::count(sums.begin(), sums.end(), expected) == 1000;
  if (job.rank() == 0)
    std::printf(
        "failing_gpu_ranks: %d of %d ranks went on, sums %s; shrink %.1f ms, world again %.1f ms, and the "
        "job's first world took %.1f ms\n",
        job.size(), before, right ? "right" : "wrong", shrink_ms, world_ms, first_world_ms);
  job.leave();
  return right ? 0 : 1;
}

int run(const std::string& what, int gpus) {
  // The deadline also limits NCCL's initialisation.
  auto const deadline = what == "missing" || what == "init_stopped" ? 8s : 30s;
  muster::JoinOptions options{.deadline = deadline, .operation_timeout = 5s, .device = muster::Device::cuda};
  // so that missing heartbeats do not end the job
  if (what == "init_stopped") options.heartbeat_timeout = 0s;
  options.tolerate_rank_loss = what == "shrunk";
  auto job = muster::Job::join(options);
  one_gpu::select_gpu(gpus, job.local_rank());
  float* data = nullptr;
  one_gpu::check(cudaMalloc(reinterpret_cast<void**>(&data), 1000 * sizeof(float)));
  bool const last = job.rank() == job.size() - 1;
  // On an H200 it takes 290 ms and more with two ranks (docs/benchmarks.md).
  if (last && what == "init_killed") ualarm(150'000, 0);
  if (last && what == "missing") {
    std::this_thread::sleep_for(12s);
    return 0;
  }
  if (last && what == "init_stopped") stop_after(150ms);
  auto const joined = std::chrono::steady_clock::now();
  auto world = job.world();
  double const first_world_ms = ms_since(joined);
  auto const all_reduce = [&] {
    world.all_reduce(std::span<float>(data, 1000));
    world.synchronize();
  };
  for (int i = 0; i < 5; ++i) all_reduce();
  if (last && (what == "killed" || what == "shrunk")) kill(getpid(), SIGKILL);
  if (last && what != "pointer") std::this_thread::sleep_for(8s);
  if (last) data = reinterpret_cast<float*>(0x1000);
  auto const since = std::chrono::steady_clock::now();
  try {
    if (what == "unsplit") world.split(0);
    while (what == "unwatched") {
      world.all_reduce(std::span<float>(data, 1000));
      one_gpu::check(cudaStreamSynchronize(nullptr));
    }
    while (true) all_reduce();
  } catch (const muster::Error& error) {
    if (what == "shrunk" && error.code() == muster::ErrorCode::lost_rank)
      return continue_after_shrink(job, first_world_ms);
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - since;
    std::printf("rank %d: ended after %.2f s\n", job.rank(), took.count());
    std::fflush(stdout);
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int const gpus = one_gpu::count_gpus();
  if (gpus == 0) return 77;
  std::string const what = argc > 1 ? argv[1] : "";
  if (what != "shared") one_gpu::share_only_gpu(gpus);
  return exit_code_of("failing_gpu_ranks", [&] { return run(what, gpus); });
}
