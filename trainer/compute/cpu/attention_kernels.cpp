// SPDX-License-Identifier: Apache-2.0
// Causal attention of one head, in blocks of query rows; the [length, length] matrix is never stored as a
// whole. The backward pass recomputes probabilities from the saved log sums (FlashAttention, arXiv
// 2205.14135). Compiled once per instruction set.
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/exponential.hpp"
#include "compute/cpu/kernel_dispatch.hpp"
#include "compute/cpu/small_matmul.hpp"

namespace {

constexpr int query_block = 32;

int padded(int length) { return (length + 63) / 64 * 64; }

/// Scratch: key^T and value^T [head_width, ld], two score blocks [query_block, ld]; ld = padded(length).
std::size_t scratch_size(int length, int head_width) {
  return static_cast<std::size_t>(padded(length)) * (2 * head_width + 2 * query_block);
}

template <typename Real>
void transpose(const Real* from, Real* to, int length, int head_width, int row, int ld) {
  for (int i = 0; i < length; ++i) {
    for (int d = 0; d < head_width; ++d) to[std::ptrdiff_t{d} * ld + i] = from[std::ptrdiff_t{i} * row + d];
  }
}

/// Columns of scores that are processed together, the last block masked; padded() leaves room for it. The
/// constant trip count lets the compiler use whole vectors without a scalar remainder.
constexpr int block = 16;

/// Turns one row of raw scores into probabilities of its first `visible` entries, zeros up to `keys`. Returns
/// the log sum.
template <typename Real>
Real softmax_row(Real* scores, int visible, int keys, Real scale) {
  Real largest = scores[0];
  for (int j = 1; j < visible; ++j) largest = scores[j] > largest ? scores[j] : largest;
  Real sums[block] = {};
  for (int at = 0; at < keys; at += block) {
    Real* part = scores + at;
    const int left = visible - at;
#pragma omp simd
    for (int j = 0; j < block; ++j) {
      const Real weight = exponential(scale * (part[j] - largest));
      part[j] = j < left ? weight : Real(0);
      sums[j] += part[j];
    }
  }
  Real total = 0;
  for (int j = 0; j < block; ++j) total += sums[j];
  const Real inverse = Real(1) / total;
  for (int at = 0; at < keys; at += block) {
#pragma omp simd
    for (int j = 0; j < block; ++j) scores[at + j] *= inverse;
  }
  return Real(__builtin_log(total)) + scale * largest;
}

template <typename Real>
void forward(const Real* q, Real* out, Real* log_sum, Real* scratch, int length, int head_width, int width) {
  const int row = 3 * width, ld = padded(length);
  Real *key_t = scratch, *scores = scratch + 2 * std::ptrdiff_t{head_width} * ld;
  const Real scale = Real(1) / __builtin_sqrt(Real(head_width));
  transpose(q + width, key_t, length, head_width, row, ld);
  for (int begin = 0; begin < length; begin += query_block) {
    const int rows = length - begin < query_block ? length - begin : query_block;
    const int keys = begin + rows;
    small_matmul<Real>(rows, keys, head_width, {q + std::ptrdiff_t{begin} * row, row, 1}, key_t, ld, scores,
                       ld, false);
    for (int r = 0; r < rows; ++r) {
      log_sum[begin + r] = softmax_row(scores + std::ptrdiff_t{r} * ld, begin + r + 1, keys, scale);
    }
    small_matmul<Real>(rows, head_width, keys, {scores, ld, 1}, q + 2 * width, row,
                       out + std::ptrdiff_t{begin} * width, width, false);
  }
}

/// Replaces raw scores by probabilities, and in d_scores d probabilities by d raw scores.
template <typename Real>
void softmax_row_backward(Real* scores, Real* d_scores, const Real* out, const Real* d_out, Real log_sum,
                          int head_width, int visible, int keys, Real scale) {
  Real dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int d = 0; d < head_width; ++d) dot += out[d] * d_out[d];
  for (int at = 0; at < keys; at += block) {
    Real *part = scores + at, *d_part = d_scores + at;
    const int left = visible - at;
#pragma omp simd
    for (int j = 0; j < block; ++j) {
      const Real weight = exponential(scale * part[j] - log_sum);
      const Real d_score = weight * (d_part[j] - dot) * scale;
      part[j] = j < left ? weight : Real(0);
      d_part[j] = j < left ? d_score : Real(0);
    }
  }
}

template <typename Real>
void backward(const Real* q, const Real* out, const Real* log_sum, const Real* d_out, Real* d_q,
              Real* scratch, int length, int head_width, int width) {
  const int row = 3 * width, ld = padded(length);
  Real* key_t = scratch;
  Real* value_t = key_t + std::ptrdiff_t{head_width} * ld;
  Real* scores = value_t + std::ptrdiff_t{head_width} * ld;
  Real* d_scores = scores + std::ptrdiff_t{query_block} * ld;
  const Real scale = Real(1) / __builtin_sqrt(Real(head_width));
  transpose(q + width, key_t, length, head_width, row, ld);
  transpose(q + 2 * width, value_t, length, head_width, row, ld);
  // From the last block to the first: the last block covers every key, so it overwrites d key and d value;
  // the other blocks add.
  bool accumulate = false;
  for (int begin = (length - 1) / query_block * query_block; begin >= 0; begin -= query_block) {
    const int rows = length - begin < query_block ? length - begin : query_block;
    const int keys = begin + rows;
    const Real* query = q + std::ptrdiff_t{begin} * row;
    const Real* d_rows = d_out + std::ptrdiff_t{begin} * width;
    small_matmul<Real>(rows, keys, head_width, {query, row, 1}, key_t, ld, scores, ld, false);
    small_matmul<Real>(rows, keys, head_width, {d_rows, width, 1}, value_t, ld, d_scores, ld, false);
    for (int r = 0; r < rows; ++r) {
      softmax_row_backward(scores + std::ptrdiff_t{r} * ld, d_scores + std::ptrdiff_t{r} * ld,
                           out + std::ptrdiff_t{begin + r} * width, d_rows + std::ptrdiff_t{r} * width,
                           log_sum[begin + r], head_width, begin + r + 1, keys, scale);
    }
    small_matmul<Real>(rows, head_width, keys, {d_scores, ld, 1}, q + width, row,
                       d_q + std::ptrdiff_t{begin} * row, row, false);
    small_matmul<Real>(keys, head_width, rows, {d_scores, 1, ld}, query, row, d_q + width, row, accumulate);
    small_matmul<Real>(keys, head_width, rows, {scores, 1, ld}, d_rows, width, d_q + 2 * width, row,
                       accumulate);
    accumulate = true;
  }
}

/// Copies `columns` elements of each of `length` rows between bfloat16 rows and float rows.
void widen_rows(const muster::bfloat16* from, std::ptrdiff_t from_row, float* to, std::ptrdiff_t to_row,
                int length, int columns) {
  for (int i = 0; i < length; ++i, from += from_row, to += to_row) {
#pragma omp simd
    for (int d = 0; d < columns; ++d) to[d] = widen(from[d]);
  }
}
void narrow_rows(const float* from, std::ptrdiff_t from_row, muster::bfloat16* to, std::ptrdiff_t to_row,
                 int length, int columns) {
  for (int i = 0; i < length; ++i, from += from_row, to += to_row) {
#pragma omp simd
    for (int d = 0; d < columns; ++d) store(to[d], from[d]);
  }
}

/// One head in float: (query | key | value), their gradients, the output and its gradient.
struct WideHead {
  float *qkv, *d_qkv, *out, *d_out, *scratch;
  WideHead(float* from, int length, int head_width)
      : qkv(from),
        d_qkv(qkv + std::ptrdiff_t{3} * length * head_width),
        out(d_qkv + std::ptrdiff_t{3} * length * head_width),
        d_out(out + std::ptrdiff_t{length} * head_width),
        scratch(d_out + std::ptrdiff_t{length} * head_width) {}
};
std::size_t wide_scratch_size(int length, int head_width) {
  return scratch_size(length, head_width) + static_cast<std::size_t>(8) * length * head_width;
}

void wide_forward(const muster::bfloat16* q, muster::bfloat16* out, float* log_sum, float* scratch,
                  int length, int head_width, int width) {
  const WideHead head(scratch, length, head_width);
  for (int part = 0; part < 3; ++part) {
    widen_rows(q + std::ptrdiff_t{part} * width, 3 * width, head.qkv + part * head_width, 3 * head_width,
               length, head_width);
  }
  forward(head.qkv, head.out, log_sum, head.scratch, length, head_width, head_width);
  narrow_rows(head.out, head_width, out, width, length, head_width);
}

void wide_backward(const muster::bfloat16* q, const muster::bfloat16* out, const float* log_sum,
                   const muster::bfloat16* d_out, muster::bfloat16* d_q, float* scratch, int length,
                   int head_width, int width) {
  const WideHead head(scratch, length, head_width);
  for (int part = 0; part < 3; ++part) {
    widen_rows(q + std::ptrdiff_t{part} * width, 3 * width, head.qkv + part * head_width, 3 * head_width,
               length, head_width);
  }
  widen_rows(out, width, head.out, head_width, length, head_width);
  widen_rows(d_out, width, head.d_out, head_width, length, head_width);
  backward(head.qkv, head.out, log_sum, head.d_out, head.d_qkv, head.scratch, length, head_width, head_width);
  for (int part = 0; part < 3; ++part) {
    narrow_rows(head.d_qkv + part * head_width, 3 * head_width, d_q + std::ptrdiff_t{part} * width, 3 * width,
                length, head_width);
  }
}

template <typename Real>
void panel(int m, int columns, int k, const Real* a, std::ptrdiff_t a_row, std::ptrdiff_t a_column,
           const Real* b, Real* c, std::ptrdiff_t c_row, bool accumulate) {
  small_matmul<Real>(m, columns, k, {a, a_row, a_column}, b, tile_columns<Real>, c, c_row, accumulate);
}

template <typename Real>
constexpr muster::compute::cpu::AttentionKernels<Real> attention_table{scratch_size, forward<Real>,
                                                                       backward<Real>};
template <typename Real>
constexpr muster::compute::cpu::MatmulKernels<Real> matmul_table{tile_columns<Real>, panel<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const AttentionKernels<float> float_attention = attention_table<float>;
const AttentionKernels<double> double_attention = attention_table<double>;
const AttentionKernels<bfloat16> bfloat16_attention{wide_scratch_size, wide_forward, wide_backward};
const MatmulKernels<float> float_matmul = matmul_table<float>;
const MatmulKernels<double> double_matmul = matmul_table<double>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
