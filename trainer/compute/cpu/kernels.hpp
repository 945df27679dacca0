// SPDX-License-Identifier: Apache-2.0
// Single-threaded kernels over a range of rows, compiled once per instruction set and selected at run time.
//
// The kernel sources are compiled several times with different -march options, so they must not instantiate
// library templates: the linker keeps one copy of such a function, and an AVX-512 copy would crash an older
// processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/image_compute.hpp"
#include "compute/llama_compute.hpp"
#include "compute/precision.hpp"
#include "compute/token.hpp"

namespace muster::compute::cpu {

template <typename Real>
struct RowKernels {
  void (*embed)(const Token* tokens, const Real* token_table, const Real* position_table, Accurate<Real>* out,
                int begin, int end, int length, int width);
  void (*layer_norm)(const Accurate<Real>* x, const Real* addend, Accurate<Real>* sum, const Real* gain,
                     const Real* bias, Real* out, Accurate<Real>* mean, Accurate<Real>* rstd, int begin,
                     int end, int width);
  /// Adds this range's share to d_gain and d_bias.
  void (*layer_norm_backward)(const Accurate<Real>* x, const Real* gain, const Accurate<Real>* mean,
                              const Accurate<Real>* rstd, const Real* d_out, Accurate<Real>* d_x,
                              Real* rounded, Accurate<Real>* d_gain, Accurate<Real>* d_bias, int begin,
                              int end, int width);
  /// out += x.
  void (*add)(const Accurate<Real>* x, Accurate<Real>* out, std::size_t count);
  void (*gelu)(const Real* x, Real* out, std::size_t count);
  void (*gelu_backward)(const Real* x, Real* d_inout, std::size_t count);
  /// Adds rows [begin, end) of x[.., width] to out[width].
  void (*column_sums)(const Real* x, Accurate<Real>* out, int begin, int end, int width);
  /// losses: one per row, in double.
  void (*cross_entropy)(Real* logits, const Token* targets, double* losses, int begin, int end, int classes,
                        Accurate<Real> gradient_scale, Accurate<Real> smoothing);
};

/// Batch normalization of rows [begin, end) of x [.., channels]; ImageCompute documents the formulas. Rows
/// are read twice, so they should fit a level-1 cache.
template <typename Real>
struct BatchNormKernels {
  void (*moments)(const Real* x, Accurate<Real>* mean, Accurate<Real>* squares, std::ptrdiff_t begin,
                  std::ptrdiff_t end, int channels);
  void (*scale_and_shift)(const Real* x, const Accurate<Real>* scale, const Accurate<Real>* shift,
                          const Real* addend, bool relu, Real* out, std::ptrdiff_t begin, std::ptrdiff_t end,
                          int channels);
  void (*gradient_sums)(const Real* x, const Accurate<Real>* mean, const Real* out, Real* d_out,
                        const Real* d_also, Accurate<Real>* sum, Accurate<Real>* dot, std::ptrdiff_t begin,
                        std::ptrdiff_t end, int channels);
  void (*gradient)(const Real* x, const Real* g, const Accurate<Real>* mean, const Accurate<Real>* by_g,
                   const Accurate<Real>* by_x, const Accurate<Real>* constant, Real* d_x,
                   std::ptrdiff_t begin, std::ptrdiff_t end, int channels);
};

template <typename Real>
struct DepthwiseKernels {
  /// sums [place in the window, channel] = the gradient of a depthwise convolution's weights over `images`
  /// images. Windows are 3 x 3.
  void (*weight)(const ConvolutionShape& shape, const Real* image, const Real* d_out, int images,
                 Accurate<Real>* sums);
};

/// Max pooling of one image; ImageCompute documents it.
template <typename Real>
struct PoolKernels {
  void (*max_pool)(const PoolShape& shape, const Real* image, Real* out, std::uint8_t* places);
  void (*max_pool_backward)(const PoolShape& shape, const std::uint8_t* places, const Real* d_out,
                            Real* d_image);
};

/// ReLU of one image; ImageCompute documents it. `factor`: of each channel.
template <typename Real>
struct ReluKernels {
  void (*relu)(int pixels, int channels, const Real* x, const Real* factor, Real* out);
  void (*relu_backward)(int pixels, int channels, const Real* out, const Real* factor, const Real* d_out,
                        Real* d_x);
};

/// Rows [begin, end); LlamaCompute documents the formulas.
template <typename Real>
struct LlamaKernels {
  void (*rms_norm)(const Accurate<Real>* x, const Real* addend, Accurate<Real>* sum, const Real* gain,
                   Real* out, Accurate<Real>* rstd, int begin, int end, int width, Accurate<Real> epsilon);
  /// Adds this range's share to d_gain.
  void (*rms_norm_backward)(const Accurate<Real>* x, const Real* gain, const Accurate<Real>* rstd,
                            const Real* d_out, Accurate<Real>* d_x, Real* rounded, Accurate<Real>* d_gain,
                            int begin, int end, int width);
  /// sign: -1 rotates back.
  void (*rotate)(const RotaryShape& shape, const Accurate<Real>* table, Real* x, int begin, int end,
                 Accurate<Real> sign);
  void (*swiglu)(const Real* gate_up, Real* out, int begin, int end, int width);
  void (*swiglu_backward)(const Real* gate_up, const Real* d_out, Real* d_gate_up, int begin, int end,
                          int width);
};

/// Strided view of the heads of queries that share a head of keys and values, from the first query on: head
/// i's queries are i * head_width behind it, the keys `key` and the values `value`, and rows are `row` apart.
/// Outputs begin i * head_width behind the first and are `out_row` apart. log_sum is [heads, length].
struct HeadGroup {
  int heads = 1, length = 0, head_width = 0;
  int row = 0, key = 0, value = 0, out_row = 0;
};

template <typename Real>
struct AttentionKernels {
  /// Elements of scratch that one call needs.
  std::size_t (*scratch)(const HeadGroup& group);
  void (*forward)(const Real* q, Real* out, Accurate<Real>* log_sum, Accurate<Real>* scratch,
                  const HeadGroup& group);
  void (*backward)(const Real* q, const Real* out, const Accurate<Real>* log_sum, const Real* d_out,
                   Real* d_q, Accurate<Real>* scratch, const HeadGroup& group);
};

template <typename Real>
struct MatmulKernels {
  int panel_columns;  ///< columns of c that one call computes at most
  /// c[m, columns] (+)= op(a)·b_panel; a's element (i, p) is a[i * a_row + p * a_column]; panel: [k,
  /// panel_columns].
  void (*panel)(int m, int columns, int k, const Real* a, std::ptrdiff_t a_row, std::ptrdiff_t a_column,
                const Real* panel, Real* c, std::ptrdiff_t c_row, bool accumulate);
};

/// For generation, which computes a few rows at a time. The order of each sum depends only on the sizes.
template <typename Real>
struct DecodeKernels {
  /// Columns [begin, end) of out[rows, to] = x[rows, from]·weight[to, from]^T + bias[to] (unless null).
  void (*project)(const Real* x, int rows, const Real* weight, const Real* bias, Real* out, int begin,
                  int end, int from, int to);
  /// Attention of one query[head_width] to `count` cached positions: keys [head_width, context], values
  /// [context, head_width]; scratch: context + head_width elements.
  void (*attend)(const Real* query, const Real* keys, const Real* values, Real* out, Accurate<Real>* scratch,
                 int count, int head_width, int context);
};

/// Compiled without contraction to fused multiply-add, so that every instruction set gives the same bits.
template <typename Real>
struct UpdateKernels {
  double (*sum_of_squares)(const Real* x, std::size_t count);
  void (*adamw)(Real* parameter, const Real* gradient, Real* moment1, Real* moment2, bfloat16* rounded,
                std::size_t count, Real gradient_scale, Real beta1, Real beta2, Real step_size,
                Real inverse_correction2, Real epsilon, Real decay);
  void (*sgd)(Real* parameter, const Real* gradient, Real* momentum, bfloat16* rounded, std::size_t count,
              Real gradient_scale, Real decay, Real momentum_factor, bool nesterov, Real learning_rate);
  void (*round)(const Real* from, bfloat16* to, std::size_t count);
};

template <typename Real>
struct Kernels {
  const char* instruction_set;
  RowKernels<Real> rows;
  AttentionKernels<Real> attention;
  DecodeKernels<Real> decode;
  LlamaKernels<Real> llama;
  BatchNormKernels<Real> batch_norm;
  PoolKernels<Real> pool;
  ReluKernels<Real> relu;
  DepthwiseKernels<Real> depthwise;
  MatmulKernels<Accurate<Real>> matmul;
  UpdateKernels<Accurate<Real>> update;
};

/// The best kernels that this processor can run. The environment variable
/// MUSTER_ISA=baseline|avx2|avx512|avx512_bf16 selects lower ones.
/// @throws Error(ErrorCode::usage) when that variable has another value.
template <typename Real>
const Kernels<Real>& kernels();
/// The kernels for that instruction set. Null when they were not built, this processor cannot run them, or
/// the set adds nothing for Real: avx512_bf16 is for bfloat16 alone.
template <typename Real>
const Kernels<Real>* find_kernels(const char* instruction_set);

}  // namespace muster::compute::cpu
