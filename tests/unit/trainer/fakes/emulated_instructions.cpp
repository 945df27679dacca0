// SPDX-License-Identifier: Apache-2.0
// The fake GPU's instructions that kernels use through PTX, with the register layouts of the PTX ISA.
#include <cstring>

#include "compute/cuda/kernels/mma.cuh"
#include "fibre.hpp"
#include "float16_bits.hpp"

namespace muster::compute::cuda {
namespace {

float number(std::uint32_t pair, int half) { return half == 0 ? widen_low(pair) : widen_high(pair); }

struct Product {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

/// Lane l holds, of a: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, and both again 8 columns on;
/// of b: rows like a's columns, column l / 4; of c: a's rows, columns 2 (l % 4) and the next.
void warp_multiply_add(const fake_gpu::Lanes& lanes) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto& lane = *static_cast<const Product*>(lanes[static_cast<std::size_t>(l)]);
    const int row = l / 4, column = l % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) a[row + i % 2 * 8][column + half + i / 2 * 8] = number(lane.a[i], half);
      for (int i = 0; i < 2; ++i) b[column + half + i * 8][row] = number(lane.b[i], half);
    }
  }
  for (int l = 0; l < 32; ++l) {
    float* const c = static_cast<Product*>(lanes[static_cast<std::size_t>(l)])->c;
    for (int i = 0; i < 4; ++i) {
      const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
      float sum = c[i];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      c[i] = sum;
    }
  }
}

struct Matrices {
  std::uint32_t* to;
  const Bf16x8* row;
};

std::uint16_t element(const fake_gpu::Lanes& lanes, int matrix, int row, int column) {
  const auto* const from =
      static_cast<const Matrices*>(lanes[static_cast<std::size_t>(8 * matrix + row)])->row;
  std::uint16_t bits;
  std::memcpy(&bits, reinterpret_cast<const unsigned char*>(from) + 2 * column, 2);
  return bits;
}

template <bool transposed>
void load_warp_matrices(const fake_gpu::Lanes& lanes) {
  for (int l = 0; l < 32; ++l) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int row = l / 4, column = l % 4 * 2;
      const std::uint32_t low =
          transposed ? element(lanes, matrix, column, row) : element(lanes, matrix, row, column);
      const std::uint32_t high =
          transposed ? element(lanes, matrix, column + 1, row) : element(lanes, matrix, row, column + 1);
      static_cast<Matrices*>(lanes[static_cast<std::size_t>(l)])->to[matrix] = low | high << 16;
    }
  }
}

}  // namespace

std::uint32_t narrow_pair(float low, float high) {
  return detail::bfloat16_bits(low) | std::uint32_t{detail::bfloat16_bits(high)} << 16;
}

void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  Product mine{c, a, {b0, b1}};
  fake_gpu::run_on_warp(&mine, warp_multiply_add);
}

void load_matrices(std::uint32_t (&to)[4], const Bf16x8* row) {
  fake_gpu::note_read(row);
  Matrices mine{to, row};
  fake_gpu::run_on_warp(&mine, load_warp_matrices<false>);
}

void load_matrices_transposed(std::uint32_t (&to)[4], const Bf16x8* row) {
  fake_gpu::note_read(row);
  Matrices mine{to, row};
  fake_gpu::run_on_warp(&mine, load_warp_matrices<true>);
}

}  // namespace muster::compute::cuda
