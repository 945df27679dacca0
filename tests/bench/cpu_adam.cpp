// SPDX-License-Identifier: Apache-2.0
// For tests/bench/cpu_adam: AdamW updates on the CPU, or copies of as many values. Usage: bench_cpu_adam
// muster|muster-shared|copy PARAMETERS THREADS FILE; the second kind is in memory that a node's ranks share.
// For each line on standard input it makes one update and prints its seconds; at the end it writes the first
// parameters to FILE. tests/bench/cpu_adam_torch.py starts from the same values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/parallel_for.hpp"
#include "run/omp_wait_policy.hpp"
#include "shared_memory/shared_segment.hpp"

namespace {

using namespace muster;

constexpr std::size_t compared = 4096;  ///< parameters that are written

/// Parameters, their gradients and moments.
class Tensors {
 public:
  Tensors(std::size_t count, bool shared) : count_(count), gradients_(count) {
    if (!shared) {
      for (auto& arena : own_) arena = compute::Arena<float>(count);
      return;
    }
    segment_ = SharedSegment::create(3 * bytes());
    if (!segment_ || !segment_->reserve(0, 3 * bytes())) std::exit(1);
  }
  float* parameters() { return state(0); }
  float* gradients() { return gradients_.data(); }
  float* moments1() { return state(1); }
  float* moments2() { return state(2); }

 private:
  std::size_t bytes() const { return compute::aligned_count<float>(count_) * sizeof(float); }
  float* state(std::size_t number) {
    return segment_ ? reinterpret_cast<float*>(segment_->data() + number * bytes()) : own_[number].data();
  }

  std::size_t count_;
  compute::Arena<float> gradients_, own_[3];
  std::unique_ptr<SharedSegment> segment_;
};

template <typename Call>
void for_each_part(int threads, std::size_t count, const Call& call) {
  compute::cpu::parallel_for(threads, count, 32, count, call);
}

void update(compute::cpu::CpuCompute<float>& compute, Tensors& of, std::size_t count, int step) {
  compute::AdamwStep scalars{1e-3, 0.9, 0.99, 1e-8, 0.1};
  scalars.correction1 = 1 - std::pow(scalars.beta1, step + 1);
  scalars.correction2 = 1 - std::pow(scalars.beta2, step + 1);
  compute.adamw(scalars, of.parameters(), of.gradients(), of.moments1(), of.moments2(), nullptr, count);
}

/// Calls it once for each line on standard input, with the line's number.
void answer_lines(const std::function<void(int)>& call) {
  char line[64];
  for (int number = 0; std::fgets(line, sizeof line, stdin) != nullptr; ++number) {
    const auto from = std::chrono::steady_clock::now();
    call(number);
    std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  set_omp_wait_policy(argv);
  if (argc != 5) return 2;
  const std::string kind = argv[1];
  const auto count = static_cast<std::size_t>(std::atoll(argv[2]));
  const int threads = std::atoi(argv[3]);
  compute::cpu::CpuCompute<float> compute({threads, true, nullptr});
  Tensors tensors(count, kind == "muster-shared");
  for_each_part(threads, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      tensors.parameters()[i] = static_cast<float>(i % 1021) / 1021 - 0.5f;
      tensors.gradients()[i] = static_cast<float>(i % 509) / 509 - 0.5f;
    }
  });
  answer_lines([&](int number) {
    if (kind != "copy") return update(compute, tensors, count, number);
    for_each_part(threads, count, [&](std::size_t begin, std::size_t end) {
      std::memcpy(tensors.moments1() + begin, tensors.gradients() + begin, (end - begin) * sizeof(float));
    });
  });
  std::ofstream(argv[4], std::ios::binary)
      .write(reinterpret_cast<const char*>(tensors.parameters()),
             static_cast<std::streamsize>(std::min(count, compared) * sizeof(float)));
  return 0;
}
