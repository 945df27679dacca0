// SPDX-License-Identifier: Apache-2.0
// A job whose timeline and metrics observed_ranks.py checks: observed_ranks WHAT.
//   steps    ten steps with spans of two threads and operations of several kinds
//   reduces  five steps of a reducer with three buckets
//   flood    more spans on the last rank than its event log can hold
//   killed   the last rank is killed between operations
//   asks     rank 0 prints the metrics of the last rank while that rank's program does something else
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "exit_code.hpp"
#include "muster/muster.hpp"

namespace {

void step(muster::Communicator& world, std::vector<float>& values) {
  muster::Span const span("step");
  {
    muster::Span const forward("forward");
    std::this_thread::yield();
  }
  muster::Span const backward("backward");
  world.all_reduce(std::span<float>(values));
  world.broadcast(std::span<float>(values), 0);
}

// Buckets of 400, 400 and 200 bytes: the last gradient is ready first.
void reduce(const muster::Communicator& world) {
  muster::Reducer reducer(world, std::vector<std::size_t>{50, 100, 100}, {.bucket_bytes = 400});
  for (int i = 0; i < 5; ++i) {
    muster::Span const span("step");
    for (std::size_t const parameter : {2, 1, 0}) reducer.ready(parameter);
    reducer.finish();
  }
}

int run(const std::string& what) {
  auto job = muster::Job::join({.deadline = std::chrono::seconds(240),
                                .heartbeat_timeout = std::chrono::seconds(60),
                                .device = muster::Device::cpu});
  auto world = job.world();
  std::vector<float> values(1000);
  bool const last = job.rank() == job.size() - 1;
  if (what == "reduces") {
    reduce(world);
    job.barrier("reduced");
    job.leave();
    return 0;
  }
  for (int i = 0; i < 10; ++i) step(world, values);
  std::thread loader([] { muster::Span const span("load"); });
  loader.join();
  if (what == "flood" && last) {
    for (int i = 0; i < 300000; ++i) muster::Span const span("flood");
  }
  if (what == "killed") {
    if (last) kill(getpid(), SIGKILL);
    for (;;) step(world, values);
  }
  if (what == "asks") {
    job.barrier("stepped");  // the root of a broadcast does not wait for the other ranks
    if (job.rank() == 0)
      std::printf(
          "%s", muster::prometheus_text({job.metrics_of(job.size() - 1, std::chrono::seconds(60))}).c_str());
    job.barrier("asked");
  }
  auto part = world.split(job.rank() % 2);
  part.barrier();
  job.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_code_of("observed_ranks", [&] { return run(argc > 1 ? argv[1] : "steps"); });
}
