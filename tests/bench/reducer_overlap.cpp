// SPDX-License-Identifier: Apache-2.0
// How much of the reduction overlap hides: mpirun -n N bench_reducer [MIB [PARAMETERS]], by default 64 MiB of
// gradients in 96 parameters. A backward pass takes as long as the reduction alone, first as work on this
// core ("busy"), then as waiting, like a computing device ("idle"). Measures buckets of several sizes, the
// automatic one among them, in both types, with and without overlap. Medians of steps, in ms, of the slowest
// rank; rank 0 prints.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "muster/muster.hpp"

using namespace muster;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

struct Times {
  double step = 0, communication = 0, exposed = 0;
};

// One parameter's part of a backward pass.
void compute(double ms, bool busy) {
  auto const begin = Clock::now();
  if (!busy) return std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
  static std::vector<float> numbers(4096, 1.0f);
  while (ms_since(begin) < ms)
    for (auto& number : numbers) number = number * 0.999f + 0.001f;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

Times measure_ms(Communicator& world, const std::vector<std::size_t>& sizes, const ReducerOptions& options,
                 double backward_ms, bool busy, std::size_t& bucket_bytes) {
  Reducer reducer(world, sizes, options);
  bucket_bytes = reducer.bucket_bytes();
  std::vector<double> step, communication, exposed;
  for (int repeat = 0; repeat < 12; ++repeat) {
    world.barrier();
    auto const begin = Clock::now();
    for (std::size_t i = sizes.size(); i-- > 0;) {
      compute(backward_ms / static_cast<double>(sizes.size()), busy);
      reducer.ready(i);
    }
    reducer.finish();
    if (repeat < 2) continue;  // warm-up
    auto const statistics = reducer.last_step();
    double all[] = {ms_since(begin), statistics.communication * 1e3, statistics.exposed * 1e3};
    world.all_reduce(std::span<double>(all), Reduction::max);
    step.push_back(all[0]);
    communication.push_back(all[1]);
    exposed.push_back(all[2]);
  }
  return {median(step), median(communication), median(exposed)};
}

int run(std::size_t mib, std::size_t parameters) {
  auto job = Job::join({.device = Device::cpu});
  auto world = job.world();
  std::vector<std::size_t> const sizes(parameters, mib * (1u << 20) / sizeof(float) / parameters);
  std::size_t measured = 0;
  Times const alone = measure_ms(world, sizes, {.overlap = false}, 0, true, measured);
  double const backward = alone.communication;
  if (world.rank() == 0) {
    std::printf(
        "ranks %d  gradients %zu MiB in %zu parameters  reduction alone %.2f ms  measured bucket %zu bytes\n",
        world.size(), mib, parameters, alone.communication, measured);
    std::printf("%-6s %-9s %12s %9s %10s %10s %10s\n", "pass", "type", "bucket", "overlap", "step ms",
                "reduce ms", "exposed ms");
  }
  for (bool const busy : {true, false}) {
    for (bool const bfloat16 : {false, true}) {
      std::vector<std::size_t> buckets{256u << 10, 1u << 20, 4u << 20, 16u << 20, measured};
      for (auto const bucket : buckets) {
        for (bool const overlap : {false, true}) {
          std::size_t bytes = bucket;
          auto const times =
              measure_ms(world, sizes, {.bucket_bytes = bucket, .bfloat16 = bfloat16, .overlap = overlap},
                         backward, busy, bytes);
          if (world.rank() != 0) continue;
          std::printf("%-6s %-9s %11zu%s %9s %10.2f %10.2f %10.2f\n", busy ? "busy" : "idle",
                      bfloat16 ? "bfloat16" : "float32", bytes, bucket == measured ? "*" : " ",
                      overlap ? "yes" : "no", times.step, times.communication, times.exposed);
          std::fflush(stdout);
        }
      }
    }
  }
  job.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::stoul(argv[1]) : 64, argc > 2 ? std::stoul(argv[2]) : 96);
  } catch (const Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
