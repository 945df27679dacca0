// SPDX-License-Identifier: Apache-2.0
// bench_timeline: steps of a training loop without the computation. Each step has 4 spans and 8 all-reduces
// of 1 MiB; afterwards 1000 all-reduces of 16 floats follow. Rank 0 prints the medians in microseconds;
// tests/bench/timeline compares runs with and without a timeline.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "muster/muster.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int steps = 200;
constexpr int buckets = 8;
constexpr std::size_t bucket_floats = (1u << 20) / sizeof(float);
constexpr int small_reductions = 1000;
constexpr int bare_spans = 100'000;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void step(muster::Communicator& world, std::vector<float>& gradients) {
  muster::Span const whole("step");
  { muster::Span const forward("forward"); }
  muster::Span const backward("backward");
  for (int b = 0; b < buckets; ++b)
    world.all_reduce(
        std::span(gradients).subspan(static_cast<std::size_t>(b) * bucket_floats, bucket_floats));
}

int run() {
  auto job = muster::Job::join({.device = muster::Device::cpu});
  auto world = job.world();
  std::vector<float> gradients(buckets * bucket_floats, 1.0f);
  std::vector<float> few(16);
  for (int i = 0; i < 20; ++i) step(world, gradients);
  std::vector<double> of_steps;
  std::vector<double> of_small;
  for (int i = 0; i < steps; ++i) {
    auto const begin = Clock::now();
    step(world, gradients);
    of_steps.push_back(microseconds_since(begin));
  }
  for (int i = 0; i < small_reductions; ++i) {
    auto const begin = Clock::now();
    world.all_reduce(std::span(few));
    of_small.push_back(microseconds_since(begin));
  }
  auto const begin = Clock::now();
  for (int i = 0; i < bare_spans; ++i) muster::Span const span("span");
  auto const of_span = microseconds_since(begin) / bare_spans;
  if (job.rank() == 0) std::printf("%.3f %.3f %.4f\n", median(of_steps), median(of_small), of_span);
  job.leave();
  return 0;
}

}  // namespace

int main() try { return run(); } catch (const muster::Error& error) {
  if (!error.reported_elsewhere()) std::fprintf(stderr, "bench_timeline: %s\n", error.what());
  return error.exit_code();
}
