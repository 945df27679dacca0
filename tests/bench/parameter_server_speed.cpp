// SPDX-License-Identifier: Apache-2.0
// Speeds of workers that sleep instead of computing. For tests/bench/parameter_server:
// parameter_server_speed slow-worker|prefetch SLEEP-MS CLOCKS, on ranks of which rank 0 serves. With
// slow-worker the last worker sleeps four times as long; prefetch compares parameters that are pulled before
// each task with those that are read ahead.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "muster/muster.hpp"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

struct Mode {
  const char* name;
  std::optional<std::uint64_t> staleness;
  bool deals_tasks = true, prefetches = false;
};

struct Load {
  std::size_t parameters;
  std::uint64_t clocks;
  Clock::duration sleep;  ///< for each of this rank's tasks
};

void work(ParameterClient& client, const Mode& mode, const Load& load) {
  std::vector<float> parameters(load.parameters), gradient(load.parameters, 1.0f);
  auto const run = [&](const ParameterTask& task) {
    client.pull(task.clock, parameters);
    if (mode.prefetches) client.prefetch(task.clock + 1);
    std::this_thread::sleep_for(load.sleep);
    client.push(task, gradient);
  };
  for (std::uint64_t clock = 0; clock < load.clocks; ++clock) {
    if (!mode.deals_tasks) {
      run({clock, *client.worker()});
      continue;
    }
    if (mode.staleness && clock > *mode.staleness) client.wait_for(clock - *mode.staleness - 1);
    while (auto const task = client.take(clock)) run(*task);
  }
}

double seconds_of(Job& job, const Mode& mode, const Load& load) {
  static int runs = 0;
  ParameterServerOptions options;
  options.staleness = mode.staleness;
  options.deals_tasks = mode.deals_tasks;
  options.name = "run " + std::to_string(++runs);
  std::vector<float> slice(load.parameters);
  std::optional<ParameterServer> server;
  if (job.rank() == 0) {
    server.emplace(
        job, slice.size(), std::vector<std::span<float>>{slice},
        [&](const ParameterUpdate& update) {
          for (std::size_t i = 0; i < slice.size(); ++i) slice[i] += update.gradient[i];
        },
        options);
  }
  ParameterClient client(job, slice.size(), options);
  job.barrier("begin");
  auto const from = Clock::now();
  if (client.worker()) work(client, mode, load);
  client.wait_for(load.clocks - 1);
  auto const seconds = std::chrono::duration<double>(Clock::now() - from).count();
  job.barrier("end");
  return seconds;
}

void measure_slow_worker(Job& job, Clock::duration sleep, std::uint64_t clocks) {
  int const workers = job.size() - 1;
  double const own = (workers - 1 + 0.25) / std::chrono::duration<double>(sleep).count();
  if (job.rank() == 0) {
    std::printf("%-32s %10s %14s\n", "tasks", "tasks/s", "of own speeds");
    std::printf("%-32s %10.1f %13.0f%%\n", "the workers' own speeds, added", own, 100.0);
  }
  Load const load{100'000, clocks, job.rank() == workers ? 4 * sleep : sleep};
  for (const Mode& mode : {Mode{"dealt, staleness 0", 0}, Mode{"dealt, staleness 8", 8},
                           Mode{"dealt, unbounded", std::nullopt}, Mode{"fixed, staleness 8", 8, false}}) {
    double const speed =
        static_cast<double>(clocks) * static_cast<double>(workers) / seconds_of(job, mode, load);
    if (job.rank() == 0) std::printf("%-32s %10.1f %13.0f%%\n", mode.name, speed, 100 * speed / own);
  }
}

// Both ways in turn, so that what else the machine does touches both.
void measure_prefetch(Job& job, Clock::duration sleep, std::uint64_t clocks) {
  Load const load{1'250'000, clocks, sleep};
  for (Mode mode : {Mode{"1", 1}, Mode{"4", 4}, Mode{"unbounded", std::nullopt}}) {
    double seconds[2];
    for (bool const prefetches : {false, true}) {
      mode.prefetches = prefetches;
      seconds[prefetches ? 1 : 0] = seconds_of(job, mode, load);
    }
    if (job.rank() == 0)
      std::printf("%d %s %.1f %.1f\n", job.size() - 1, mode.name,
                  1e3 * seconds[0] / static_cast<double>(clocks),
                  1e3 * seconds[1] / static_cast<double>(clocks));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::string_view const measured = argv[1];
  auto const sleep = std::chrono::milliseconds(std::atoi(argv[2]));
  auto const clocks = static_cast<std::uint64_t>(std::atoi(argv[3]));
  Job job = Job::join({.device = Device::cpu});
  if (job.size() < 2) return 2;
  if (measured == "prefetch")
    measure_prefetch(job, sleep, clocks);
  else
    measure_slow_worker(job, sleep, clocks);
  job.leave();
  return 0;
}
