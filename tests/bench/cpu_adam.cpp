// SPDX-License-Identifier: Apache-2.0
// For tests/bench/cpu_adam: AdamW updates of PARAMETERS on the CPU, with private memory and with memory that
// a node's ranks share, and copies of as much memory. Usage: bench_cpu_adam PARAMETERS STEPS THREADS FILE.
// Prints a name and the median of the steps' seconds a line; writes the first parameters after the steps to
// FILE. tests/bench/cpu_adam_torch.py starts from the same values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/parallel_for.hpp"
#include "run/omp_wait_policy.hpp"
#include "shared_memory/shared_segment.hpp"

namespace {

using namespace muster;

constexpr std::size_t compared = 4096;  ///< parameters that are written

struct Tensors {
  float *parameters, *gradients, *moments1, *moments2;
};

template <typename Call>
double median_seconds(int times, const Call& call) {
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    const auto from = std::chrono::steady_clock::now();
    call(i);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  return seconds[static_cast<std::size_t>(times / 2)];
}

double time_updates(compute::cpu::CpuCompute<float>& compute, const Tensors& of, std::size_t count,
                    int steps) {
  compute::cpu::parallel_for(compute.threads(), count, 32, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      of.parameters[i] = static_cast<float>(i % 1021) / 1021 - 0.5f;
      of.gradients[i] = static_cast<float>(i % 509) / 509 - 0.5f;
      of.moments1[i] = of.moments2[i] = 0;
    }
  });
  return median_seconds(steps, [&](int step) {
    compute::AdamwStep scalars{1e-3, 0.9, 0.99, 1e-8, 0.1};
    scalars.correction1 = 1 - std::pow(scalars.beta1, step + 1);
    scalars.correction2 = 1 - std::pow(scalars.beta2, step + 1);
    compute.adamw(scalars, of.parameters, of.gradients, of.moments1, of.moments2, nullptr, count);
  });
}

/// Copies as many bytes as an update moves: half of the 28 for each parameter are read, half are written.
double time_copies(int threads, float* from, float* to, std::size_t count, int times) {
  return median_seconds(times, [&](int) {
    compute::cpu::parallel_for(threads, count, 32, count, [&](std::size_t begin, std::size_t end) {
      std::memcpy(to + begin, from + begin, (end - begin) * sizeof(float));
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  set_omp_wait_policy(argv);
  const auto count = static_cast<std::size_t>(std::atoll(argv[1]));
  const int steps = std::atoi(argv[2]), threads = std::atoi(argv[3]);
  compute::cpu::CpuCompute<float> compute({threads, true, nullptr});
  {
    compute::Arena<float> all[4];
    for (auto& arena : all) arena = compute::Arena<float>(count);
    const Tensors tensors{all[0].data(), all[1].data(), all[2].data(), all[3].data()};
    std::printf("muster %.6f\n", time_updates(compute, tensors, count, steps));
    std::ofstream(argv[4], std::ios::binary)
        .write(reinterpret_cast<const char*>(tensors.parameters),
               static_cast<std::streamsize>(std::min(count, compared) * sizeof(float)));
    std::printf("copy %.6f\n", time_copies(threads, tensors.gradients, tensors.moments1, count, steps));
  }
  const std::size_t bytes = compute::aligned_count<float>(count) * sizeof(float);
  const auto segment = SharedSegment::create(3 * bytes);
  if (!segment || !segment->reserve(0, 3 * bytes)) return 1;
  compute::Arena<float> gradients(count);
  const auto shared = [&](std::size_t number) {
    return reinterpret_cast<float*>(segment->data() + number * bytes);
  };
  std::printf("muster-shared %.6f\n",
              time_updates(compute, {shared(0), gradients.data(), shared(1), shared(2)}, count, steps));
  return 0;
}
