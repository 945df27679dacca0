// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/cpu_decode_compute.hpp"

#include <omp.h>

#include <algorithm>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {
namespace {

/// Up to so many rows, a product that reads each weight once beats one that packs them first.
constexpr int few_rows = 8;

}  // namespace

template <typename Real>
CpuDecodeCompute<Real>::CpuDecodeCompute(CpuCompute<Real>& compute, const Kernels<Real>& kernels)
    : compute_(compute), threads_(compute.threads()), kernels_(kernels.decode) {}

template <typename Real>
void CpuDecodeCompute<Real>::project(const Real* x, int rows, const Real* weight, const Real* bias, Real* out,
                                     int from, int to) {
  if (rows > few_rows)
    return compute_.matmul({rows, to, from, false, true, bias != nullptr, false}, x, weight, bias, out);
  parallel_for(threads_, static_cast<std::size_t>(to), 4, static_cast<std::size_t>(to) * from,
               [&](std::size_t begin, std::size_t end) {
                 kernels_.project(x, rows, weight, bias, out, static_cast<int>(begin), static_cast<int>(end),
                                  from, to);
               });
}

template <typename Real>
void CpuDecodeCompute<Real>::append_to_cache(const CacheShape& s, int past, int rows, const Real* qkv,
                                             Real* keys, Real* values) {
  const std::ptrdiff_t head_size = std::ptrdiff_t{s.head_width} * s.context;
  for (int row = 0; row < rows; ++row) {
    const Real* const from = qkv + std::ptrdiff_t{row} * s.qkv_width() + s.heads * s.head_width;
    for (int head = 0; head < s.kv_heads; ++head) {
      const std::ptrdiff_t at = head * head_size;
      const Real *key = from + head * s.head_width, *value = key + s.kv_width();
      for (int d = 0; d < s.head_width; ++d) keys[at + std::ptrdiff_t{d} * s.context + past + row] = key[d];
      std::copy_n(value, s.head_width, values + at + std::ptrdiff_t{past + row} * s.head_width);
    }
  }
}

template <typename Real>
void CpuDecodeCompute<Real>::cached_attention(const CacheShape& s, int past, int rows, const Real* qkv,
                                              const Real* keys, const Real* values, Real* out) {
  const std::size_t part =
      aligned_count<Sum>(static_cast<std::size_t>(s.context) + static_cast<std::size_t>(s.head_width));
  if (scores_.size() < part * static_cast<std::size_t>(threads_))
    scores_ = Arena<Sum>(part * static_cast<std::size_t>(threads_));
  const std::size_t tasks = static_cast<std::size_t>(rows) * s.heads;
  const std::ptrdiff_t head_size = std::ptrdiff_t{s.head_width} * s.context;
  parallel_for(threads_, tasks, 1, tasks * (past + rows) * s.head_width,
               [&](std::size_t first, std::size_t last) {
                 Sum* own = scores_.data() + part * static_cast<std::size_t>(omp_get_thread_num());
                 for (std::size_t task = first; task < last; ++task) {
                   const auto row = static_cast<int>(task) / s.heads, head = static_cast<int>(task) % s.heads;
                   const std::ptrdiff_t cached = head * s.kv_heads / s.heads * head_size,
                                        query = std::ptrdiff_t{row} * s.qkv_width() + head * s.head_width,
                                        at = static_cast<std::ptrdiff_t>(task) * s.head_width;
                   kernels_.attend(qkv + query, keys + cached, values + cached, out + at, own, past + row + 1,
                                   s.head_width, s.context);
                 }
               });
}

template class CpuDecodeCompute<float>;
template class CpuDecodeCompute<double>;
template class CpuDecodeCompute<bfloat16>;

}  // namespace muster::compute::cpu
