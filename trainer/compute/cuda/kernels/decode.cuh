// SPDX-License-Identifier: Apache-2.0
// Generation: a cache of keys and values [heads of both, context, head_width], and attention to it. The
// products of a few rows with the weights are cuBLASLt's.
#pragma once

#include "compute/cuda/kernels/warp.cuh"

namespace muster::compute::cuda {

constexpr int append_threads = 256;
constexpr int decode_warps = 16, decode_threads = decode_warps * warp_size;
constexpr int widest_head = 128, head_parts = widest_head / warp_size;
constexpr int keys_at_once = 4;  ///< per warp, so that their loads overlap
/// Shared memory: for each warp its sums, its largest score and its total.
constexpr std::size_t decode_bytes = decode_warps * (widest_head + 2) * sizeof(float);

/// Copies the keys and values of rows (query | key | value) to the positions from `past` on. One thread for
/// eight columns of both.
extern "C" __global__ void __launch_bounds__(append_threads)
    muster_append_to_cache(int rows, int past, int context, int head_width, int kv_width, int qkv_width,
                           const Bf16* qkv, Bf16* keys, Bf16* values) {
  const int in_row = kv_width / 8, i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= rows * in_row) return;
  const int row = i / in_row, column = i % in_row * 8, head = column / head_width;
  const Bf16* const key =
      qkv + static_cast<std::ptrdiff_t>(row) * qkv_width + (qkv_width - 2 * kv_width) + column;
  const std::ptrdiff_t position = static_cast<std::ptrdiff_t>(head) * context + past + row;
  const std::ptrdiff_t at = position * head_width + column % head_width;
  *reinterpret_cast<Bf16x8*>(keys + at) = load_packed(key);
  *reinterpret_cast<Bf16x8*>(values + at) = load_packed(key + kv_width);
}

/// A warp's running softmax of one query, in powers of two. A lane has columns lane(), lane() + 32, …
struct WarpSoftmax {
  float largest = -INFINITY, total = 0;
  float sums[head_parts] = {};
};

/// This lane's part of a row as wide as a head, zeros beyond it.
__device__ inline void load_parts(const Bf16* row, int head_width, float (&to)[head_parts]) {
#pragma unroll
  for (int part = 0; part < head_parts; ++part) {
    const int column = part * warp_size + lane();
    to[part] = column < head_width ? widen(row[column]) : 0.0f;
  }
}

/// Adds keys `first`, first + decode_warps, … and their values, of which those from `count` on are hidden.
__device__ inline void add_cached_keys(WarpSoftmax& softmax, const float (&query)[head_parts],
                                       const Bf16* keys, const Bf16* values, int head_width, int first,
                                       int count) {
  float scores[keys_at_once], next = softmax.largest;
#pragma unroll
  for (int i = 0; i < keys_at_once; ++i) {
    const int key = first + i * decode_warps;
    float of_key[head_parts] = {}, dot = 0;
    if (key < count) load_parts(keys + static_cast<std::ptrdiff_t>(key) * head_width, head_width, of_key);
#pragma unroll
    for (int part = 0; part < head_parts; ++part) dot += query[part] * of_key[part];
    dot = sum_of_warp(dot);
    scores[i] = key < count ? dot : -INFINITY;
    next = fmaxf(next, scores[i]);
  }
  const float correction = power_of_two(softmax.largest - next);
  softmax.largest = next;
  softmax.total *= correction;
#pragma unroll
  for (int part = 0; part < head_parts; ++part) softmax.sums[part] *= correction;
#pragma unroll
  for (int i = 0; i < keys_at_once; ++i) {
    const int key = first + i * decode_warps;
    if (key >= count) continue;
    const float weight = power_of_two(scores[i] - next);
    float of_value[head_parts];
    load_parts(values + static_cast<std::ptrdiff_t>(key) * head_width, head_width, of_value);
    softmax.total += weight;
#pragma unroll
    for (int part = 0; part < head_parts; ++part) softmax.sums[part] += weight * of_value[part];
  }
}

/// out[row, head] = attention of the row's query to positions 0 … past + row. factor: log2 e /
/// sqrt(head_width). Each warp has every 16th key, and the warps' results are added in their order. Grid:
/// (heads, rows).
extern "C" __global__ void __launch_bounds__(decode_threads)
    muster_cached_attention(int past, int context, int group, int head_width, int qkv_width, float factor,
                            const Bf16* qkv, const Bf16* keys, const Bf16* values, Bf16* out) {
  MUSTER_SHARED_BYTES(shared);
  float* const sums = reinterpret_cast<float*>(shared);
  float* const largest = sums + decode_warps * widest_head;
  float* const totals = largest + decode_warps;
  const int head = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y), count = past + row + 1;
  const std::ptrdiff_t cached = static_cast<std::ptrdiff_t>(head / group) * context * head_width;
  float query[head_parts];
  load_parts(qkv + static_cast<std::ptrdiff_t>(row) * qkv_width + head * head_width, head_width, query);
#pragma unroll
  for (int part = 0; part < head_parts; ++part) query[part] *= factor;
  WarpSoftmax softmax;
  for (int first = warp(); first < count; first += decode_warps * keys_at_once)
    add_cached_keys(softmax, query, keys + cached, values + cached, head_width, first, count);
#pragma unroll
  for (int part = 0; part < head_parts; ++part)
    sums[warp() * widest_head + part * warp_size + lane()] = softmax.sums[part];
  if (lane() == 0) {
    largest[warp()] = softmax.largest;
    totals[warp()] = softmax.total;
  }
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= head_width) return;
  float most = -INFINITY, total = 0, sum = 0;
  for (int w = 0; w < decode_warps; ++w) most = fmaxf(most, largest[w]);
  for (int w = 0; w < decode_warps; ++w) {
    const float share = power_of_two(largest[w] - most);
    total += share * totals[w];
    sum += share * sums[w * widest_head + column];
  }
  out[(static_cast<std::ptrdiff_t>(row) * gridDim.x + head) * head_width + column] = narrow(sum / total);
}

}  // namespace muster::compute::cuda
