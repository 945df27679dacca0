// SPDX-License-Identifier: Apache-2.0
// Rotary positions and SwiGLU on the fake GPU, against the CPU's in double.
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "compute/cuda/kernels/llama.cuh"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;

static_assert(sizes::llama_threads == llama_threads);

namespace {

unsigned blocks_of_eights(std::size_t count) {
  return static_cast<unsigned>((count / 8 + llama_threads - 1) / llama_threads);
}
std::size_t area(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

struct OnCpu {
  muster::compute::cpu::CpuCompute<double> compute{{1, false, nullptr}};
  muster::compute::LlamaCompute<double>& llama = *compute.llama();
};

}  // namespace

TEST_CASE("a rotation agrees with the CPU's in double, and back", "[gpu kernels]") {
  OnCpu cpu;
  const std::pair<int, decltype(&muster_rotate_64)> kernels[] = {
      {32, muster_rotate_32}, {64, muster_rotate_64}, {96, muster_rotate_96}, {128, muster_rotate_128}};
  for (const auto& [width, kernel] : kernels) {
    CAPTURE(width);
    const int rows = 9, length = 5, heads = 3, row_width = 5 * width;
    const auto columns = static_cast<std::size_t>(width), half = columns / 2;
    std::vector<float> table(length * columns);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const double angle = static_cast<double>(i / columns) / (1.0 + static_cast<double>(i % half));
      table[i] = static_cast<float>(i % columns < half ? std::cos(angle) : std::sin(angle));
    }
    const auto exact_table = exact(table);
    const auto x = random_bf16(area(rows, row_width), 1);
    for (const bool back : {false, true}) {
      auto found = x;
      auto expected = exact(x);
      run(kernel, {{blocks_of_eights(area(rows, heads) * half)}, llama_threads}, rows, length, heads,
          row_width, table.data(), back ? -1.0F : 1.0F, found);
      cpu.llama.rotate({rows, length, 0, heads, width, row_width}, exact_table.data(), expected.data(), back);
      CHECK(worst_ratio(found, expected, bounds(expected, half_unit, 1e-6)) <= 1);
      CHECK_FALSE(same_bits(found, x));
    }
  }
}

TEST_CASE("SwiGLU and its gradient agree with the CPU's in double", "[gpu kernels]") {
  OnCpu cpu;
  const int rows = 7, width = 88;
  auto gate_up = random_bf16(area(rows, 2 * width), 1, 3);
  gate_up[0] = rounded(100), gate_up[1] = rounded(-100), gate_up[2] = rounded(0);
  const auto d_out = random_bf16(area(rows, width), 2);
  std::vector<Bf16> out(d_out.size()), d_gate_up(gate_up.size());
  run(muster_swiglu, {{blocks_of_eights(out.size())}, llama_threads}, rows, width, gate_up.data(), out);
  run(muster_swiglu_backward, {{blocks_of_eights(out.size())}, llama_threads}, rows, width, gate_up.data(),
      d_out.data(), d_gate_up);
  const auto inputs = exact(gate_up), d = exact(d_out);
  std::vector<double> expected(out.size()), d_expected(gate_up.size());
  cpu.llama.swiglu(inputs.data(), expected.data(), rows, width);
  cpu.llama.swiglu_backward(inputs.data(), d.data(), d_expected.data(), rows, width);
  CHECK(worst_ratio(out, expected, bounds(expected, 1.01 * half_unit, 1e-5)) < 1);
  CHECK(worst_ratio(d_gate_up, d_expected, bounds(d_expected, 1.01 * half_unit, 1e-5)) < 1);
}
