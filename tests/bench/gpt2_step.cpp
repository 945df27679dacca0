// SPDX-License-Identifier: Apache-2.0
// For tests/bench/gpt2_cpu: whole training steps of GPT-2 on the CPU, like muster-train's, and the time of
// their parts. Usage: bench_gpt2_step fp32|bf16 FOLDER STEPS THREADS BATCH CONTEXT [processor]; writes random
// tokens to FOLDER. "processor": measure processor time divided by the number of threads, not elapsed time.
// Other work on the machine disturbs it less; threads that wait for each other do not count in it.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "data/shard.hpp"
#include "machine/measure_peak_flops.hpp"
#include "muster/philox.hpp"
#include "run/omp_wait_policy.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "timed_compute.hpp"
#include "training/token_workload.hpp"

namespace {

using namespace muster;

constexpr int vocabulary = 50257, warm_up = 3;

struct Run {
  int steps, threads, batch, context;
  bool processor;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::unique_ptr<Workload> random_tokens(const std::string& folder, int context) {
  std::vector<compute::Token> tokens(1 << 16);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<compute::Token>(uniform_bits(1, 1, i) % vocabulary);
  const std::string path = folder + "/random_train_000000.bin";
  data::write_shard(path, tokens);
  Options options;
  options.data = path;
  options.validation_fraction = 0;
  options.model = *models::gpt_preset("gpt2-124M");
  options.model.context = context;
  return read_workload(options);
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
  std::vector<double> step;
  std::vector<double> phases[static_cast<std::size_t>(Phase::count)];
  double flops = 0;  ///< of a step's matrix products
};

template <typename Real>
Times train(Communicator world, const Workload& workload, compute::Compute<Real>& device, const Run& run,
            const std::function<double()>& now) {
  TimedCompute<Real> compute(device, now);
  Replica replica({{}, run.batch, 1}, workload, compute, std::move(world));
  replica.initialize();
  Times times;
  for (int step = 0; step < warm_up + run.steps; ++step) {
    const double from = now();
    const StepResult result = replica.step(step, std::int64_t{step} * run.batch, 1e-4, {});
    const double took = now() - from;
    if (!result.finite) std::exit(1);
    const auto seconds = compute.take_seconds();
    times.flops = compute.take_flops();
    if (step < warm_up) continue;
    times.step.push_back(took);
    for (std::size_t i = 0; i < seconds.size(); ++i) times.phases[i].push_back(seconds[i]);
  }
  return times;
}

template <typename Real>
void measure(const char* dtype, const std::string& folder, const Run& run) {
  Job job = Job::join({.device = Device::cpu});
  compute::cpu::CpuCompute<Real> device({run.threads, true, nullptr});
  const auto workload = random_tokens(folder, run.context);
  const double peak = measure_peak_flops(device);
  const Times times = train<Real>(job.host_world(), *workload, device, run, [&] {
    return run.processor ? seconds_of(CLOCK_PROCESS_CPUTIME_ID) / run.threads : seconds_of(CLOCK_MONOTONIC);
  });
  const double step = median(times.step), products = median(times.phases[0]),
               tokens = run.batch * run.context;
  std::printf("%s on %s, %d steps of %d x %d tokens\n", dtype, device.describe().c_str(), run.steps,
              run.batch, run.context);
  std::printf("  whole step           %8.1f ms  %7.1f tokens/s (fastest %.1f ms)\n", 1e3 * step,
              tokens / step, 1e3 * *std::min_element(times.step.begin(), times.step.end()));
  double rest = step;
  for (std::size_t i = 0; i < phase_names.size(); ++i) {
    const double seconds = median(times.phases[i]);
    rest -= seconds;
    std::printf("  %-20s %8.1f ms  %5.1f%%", phase_names[i], 1e3 * seconds, 100 * seconds / step);
    if (i == 0) {
      std::printf("  %.0f GFLOP/s, %.0f%% of the %.0f measured; alone they would be %.1f tokens/s",
                  1e-9 * times.flops / seconds, 100 * times.flops / seconds / peak, 1e-9 * peak,
                  tokens / products);
    }
    std::printf("\n");
  }
  std::printf("  %-20s %8.1f ms  %5.1f%%\n", "everything else", 1e3 * rest, 100 * rest / step);
  std::printf("  all but the products %8.1f ms  %5.1f%%\n", 1e3 * (step - products),
              100 * (1 - products / step));
  job.leave();
}

}  // namespace

int main(int argc, char** argv) {
  set_omp_wait_policy(argv);
  const bool fits = argc == 7 || (argc == 8 && std::string(argv[7]) == "processor");
  const std::string dtype = fits ? argv[1] : "";
  Run run{};
  if (fits) run = {std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]), std::atoi(argv[6]), argc == 8};
  if ((dtype != "fp32" && dtype != "bf16") ||
      std::min({run.steps, run.threads, run.batch, run.context}) < 1) {
    std::fprintf(stderr, "usage: bench_gpt2_step fp32|bf16 FOLDER STEPS THREADS BATCH CONTEXT [processor]\n");
    return 2;
  }
  if (dtype == "bf16")
    measure<bfloat16>("bf16", argv[2], run);
  else
    measure<float>("fp32", argv[2], run);
  return 0;
}
