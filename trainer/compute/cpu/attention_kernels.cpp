// SPDX-License-Identifier: Apache-2.0
// Causal attention of the heads that share keys and values, in blocks of query rows; the [length, length]
// matrix is never stored as a whole. The backward pass recomputes probabilities from the saved log sums
// (FlashAttention, arXiv 2205.14135). Compiled once per instruction set.
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/exponential.hpp"
#include "compute/cpu/kernel_dispatch.hpp"
#include "compute/cpu/small_matmul.hpp"

namespace {

using muster::compute::cpu::HeadGroup;

constexpr int query_block = 32;

int padded(int length) { return (length + 63) / 64 * 64; }

/// Scratch: key^T and value^T [head_width, ld], two score blocks [query_block, ld]; ld = padded(length).
std::size_t scratch_size(const HeadGroup& group) {
  return static_cast<std::size_t>(padded(group.length)) * (2 * group.head_width + 2 * query_block);
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
void forward_head(const Real* q, const Real* value, Real* out, Real* log_sum, const Real* key_t, Real* scores,
                  const HeadGroup& group) {
  const auto [heads, length, head_width, row, key_at, value_at, width] = group;
  const int ld = padded(length);
  const Real scale = Real(1) / __builtin_sqrt(Real(head_width));
  for (int begin = 0; begin < length; begin += query_block) {
    const int rows = length - begin < query_block ? length - begin : query_block;
    const int keys = begin + rows;
    small_matmul<Real>(rows, keys, head_width, {q + std::ptrdiff_t{begin} * row, row, 1}, key_t, ld, scores,
                       ld, false);
    for (int r = 0; r < rows; ++r) {
      log_sum[begin + r] = softmax_row(scores + std::ptrdiff_t{r} * ld, begin + r + 1, keys, scale);
    }
    small_matmul<Real>(rows, head_width, keys, {scores, ld, 1}, value, row,
                       out + std::ptrdiff_t{begin} * width, width, false);
  }
}

template <typename Real>
void forward(const Real* q, Real* out, Real* log_sum, Real* scratch, const HeadGroup& group) {
  const int ld = padded(group.length);
  Real *key_t = scratch, *scores = scratch + 2 * std::ptrdiff_t{group.head_width} * ld;
  transpose(q + group.key, key_t, group.length, group.head_width, group.row, ld);
  for (int head = 0; head < group.heads; ++head) {
    const int at = head * group.head_width;
    forward_head(q + at, q + group.value, out + at, log_sum + std::ptrdiff_t{head} * group.length, key_t,
                 scores, group);
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

/// Keys and values with their gradients; the first two transposed.
template <typename Real>
struct KeyValue {
  const Real *key_t, *value_t, *key;
  Real *d_key, *d_value;
};

/// Adds to d key and d value if `accumulate`, else overwrites them.
template <typename Real>
void backward_head(const Real* q, const Real* out, const Real* log_sum, const Real* d_out, Real* d_q,
                   const KeyValue<Real>& kv, Real* scores, const HeadGroup& group, bool accumulate) {
  const auto [heads, length, head_width, row, key_at, value_at, width] = group;
  const int ld = padded(length);
  Real* d_scores = scores + std::ptrdiff_t{query_block} * ld;
  const Real scale = Real(1) / __builtin_sqrt(Real(head_width));
  // From the last block to the first: the last block covers every key, so it may overwrite d key and d value;
  // the other blocks add.
  for (int begin = (length - 1) / query_block * query_block; begin >= 0; begin -= query_block) {
    const int rows = length - begin < query_block ? length - begin : query_block;
    const int keys = begin + rows;
    const Real* query = q + std::ptrdiff_t{begin} * row;
    const Real* d_rows = d_out + std::ptrdiff_t{begin} * width;
    small_matmul<Real>(rows, keys, head_width, {query, row, 1}, kv.key_t, ld, scores, ld, false);
    small_matmul<Real>(rows, keys, head_width, {d_rows, width, 1}, kv.value_t, ld, d_scores, ld, false);
    for (int r = 0; r < rows; ++r) {
      softmax_row_backward(scores + std::ptrdiff_t{r} * ld, d_scores + std::ptrdiff_t{r} * ld,
                           out + std::ptrdiff_t{begin + r} * width, d_rows + std::ptrdiff_t{r} * width,
                           log_sum[begin + r], head_width, begin + r + 1, keys, scale);
    }
    small_matmul<Real>(rows, head_width, keys, {d_scores, ld, 1}, kv.key, row,
                       d_q + std::ptrdiff_t{begin} * row, row, false);
    small_matmul<Real>(keys, head_width, rows, {d_scores, 1, ld}, query, row, kv.d_key, row, accumulate);
    small_matmul<Real>(keys, head_width, rows, {scores, 1, ld}, d_rows, width, kv.d_value, row, accumulate);
    accumulate = true;
  }
}

template <typename Real>
void backward(const Real* q, const Real* out, const Real* log_sum, const Real* d_out, Real* d_q,
              Real* scratch, const HeadGroup& group) {
  const int ld = padded(group.length);
  Real *key_t = scratch, *value_t = key_t + std::ptrdiff_t{group.head_width} * ld;
  Real* scores = value_t + std::ptrdiff_t{group.head_width} * ld;
  transpose(q + group.key, key_t, group.length, group.head_width, group.row, ld);
  transpose(q + group.value, value_t, group.length, group.head_width, group.row, ld);
  const KeyValue<Real> kv{key_t, value_t, q + group.key, d_q + group.key, d_q + group.value};
  for (int head = 0; head < group.heads; ++head) {
    const int at = head * group.head_width;
    backward_head(q + at, out + at, log_sum + std::ptrdiff_t{head} * group.length, d_out + at, d_q + at, kv,
                  scores, group, head > 0);
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

/// A group in float: (queries | key | value), their gradients, the outputs and their gradients.
struct WideGroup {
  HeadGroup shape;
  float *qkv, *d_qkv, *out, *d_out, *scratch;
  WideGroup(float* from, const HeadGroup& group)
      : shape{.heads = group.heads,
              .length = group.length,
              .head_width = group.head_width,
              .row = (group.heads + 2) * group.head_width,
              .key = group.heads * group.head_width,
              .value = (group.heads + 1) * group.head_width,
              .out_row = group.heads * group.head_width},
        qkv(from),
        d_qkv(qkv + std::ptrdiff_t{shape.row} * shape.length),
        out(d_qkv + std::ptrdiff_t{shape.row} * shape.length),
        d_out(out + std::ptrdiff_t{shape.out_row} * shape.length),
        scratch(d_out + std::ptrdiff_t{shape.out_row} * shape.length) {}

  void widen_qkv(const muster::bfloat16* q, const HeadGroup& from) const {
    widen_rows(q, from.row, qkv, shape.row, shape.length, shape.out_row);
    widen_rows(q + from.key, from.row, qkv + shape.key, shape.row, shape.length, shape.head_width);
    widen_rows(q + from.value, from.row, qkv + shape.value, shape.row, shape.length, shape.head_width);
  }
};
std::size_t wide_scratch_size(const HeadGroup& group) {
  return scratch_size(group) + static_cast<std::size_t>(group.length) *
                                   static_cast<std::size_t>((4 * group.heads + 4) * group.head_width);
}

void wide_forward(const muster::bfloat16* q, muster::bfloat16* out, float* log_sum, float* scratch,
                  const HeadGroup& group) {
  const WideGroup wide(scratch, group);
  wide.widen_qkv(q, group);
  forward(wide.qkv, wide.out, log_sum, wide.scratch, wide.shape);
  narrow_rows(wide.out, wide.shape.out_row, out, group.out_row, group.length, wide.shape.out_row);
}

void wide_backward(const muster::bfloat16* q, const muster::bfloat16* out, const float* log_sum,
                   const muster::bfloat16* d_out, muster::bfloat16* d_q, float* scratch,
                   const HeadGroup& group) {
  const WideGroup wide(scratch, group);
  const HeadGroup& shape = wide.shape;
  wide.widen_qkv(q, group);
  widen_rows(out, group.out_row, wide.out, shape.out_row, group.length, shape.out_row);
  widen_rows(d_out, group.out_row, wide.d_out, shape.out_row, group.length, shape.out_row);
  backward(wide.qkv, wide.out, log_sum, wide.d_out, wide.d_qkv, wide.scratch, shape);
  narrow_rows(wide.d_qkv, shape.row, d_q, group.row, group.length, shape.out_row);
  narrow_rows(wide.d_qkv + shape.key, shape.row, d_q + group.key, group.row, group.length, shape.head_width);
  narrow_rows(wide.d_qkv + shape.value, shape.row, d_q + group.value, group.row, group.length,
              shape.head_width);
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
