// SPDX-License-Identifier: Apache-2.0
// Tasks per second of four workers that sleep instead of computing, the last one four times as long. For
// tests/bench/parameter_server: parameter_server_speed SLEEP-MS CLOCKS, on five ranks, of which rank 0
// serves.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "muster/muster.hpp"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

constexpr std::size_t size = 100'000;
constexpr int workers = 4;

struct Mode {
  const char* name;
  std::optional<std::uint64_t> staleness;
  bool deals_tasks;
};

void work(ParameterClient& client, const Mode& mode, std::uint64_t clocks, Clock::duration sleep) {
  std::vector<float> parameters(size), gradient(size, 1.0f);
  auto const run = [&](const ParameterTask& task) {
    client.pull(task.clock, parameters);
    std::this_thread::sleep_for(sleep);
    client.push(task, gradient);
  };
  for (std::uint64_t clock = 0; clock < clocks; ++clock) {
    if (!mode.deals_tasks) {
      run({clock, *client.worker()});
      continue;
    }
    if (mode.staleness && clock > *mode.staleness) client.wait_for(clock - *mode.staleness - 1);
    while (auto const task = client.take(clock)) run(*task);
  }
}

double seconds_of(Job& job, const Mode& mode, std::uint64_t clocks, Clock::duration sleep) {
  ParameterServerOptions options;
  options.staleness = mode.staleness;
  options.deals_tasks = mode.deals_tasks;
  options.name = mode.name;
  std::vector<float> slice(size);
  std::optional<ParameterServer> server;
  if (job.rank() == 0) {
    server.emplace(
        job, size, std::vector<std::span<float>>{slice},
        [&](const ParameterUpdate& update) {
          for (std::size_t i = 0; i < slice.size(); ++i) slice[i] += update.gradient[i];
        },
        options);
  }
  ParameterClient client(job, size, options);
  job.barrier("begin");
  auto const from = Clock::now();
  if (client.worker()) work(client, mode, clocks, *client.worker() == workers - 1 ? 4 * sleep : sleep);
  client.wait_for(clocks - 1);
  auto const seconds = std::chrono::duration<double>(Clock::now() - from).count();
  job.barrier("end");
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto const sleep = std::chrono::milliseconds(std::atoi(argv[1]));
  auto const clocks = static_cast<std::uint64_t>(std::atoi(argv[2]));
  Job job = Job::join({.device = Device::cpu});
  if (job.size() != workers + 1) return 2;
  double const own = (workers - 1 + 0.25) / std::chrono::duration<double>(sleep).count();
  if (job.rank() == 0) {
    std::printf("%-32s %10s %14s\n", "tasks", "tasks/s", "of own speeds");
    std::printf("%-32s %10.1f %13.0f%%\n", "the workers' own speeds, added", own, 100.0);
  }
  for (const Mode& mode :
       {Mode{"dealt, staleness 0", 0, true}, Mode{"dealt, staleness 8", 8, true},
        Mode{"dealt, unbounded", std::nullopt, true}, Mode{"fixed, staleness 8", 8, false}}) {
    double const speed = static_cast<double>(clocks * workers) / seconds_of(job, mode, clocks, sleep);
    if (job.rank() == 0) std::printf("%-32s %10.1f %13.0f%%\n", mode.name, speed, 100 * speed / own);
  }
  job.leave();
  return 0;
}
