// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_decode_compute.hpp"

#include <cmath>
#include <numbers>

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/geometry.hpp"

namespace muster::compute::cuda {

using namespace sizes;

void CudaDecodeCompute::project(const bfloat16* x, int rows, const bfloat16* weight, const bfloat16* bias,
                                bfloat16* out, int from, int to) {
  compute_.matmul({rows, to, from, false, true, bias != nullptr, false}, x, weight, bias, out);
}

void CudaDecodeCompute::append_to_cache(const CacheShape& s, int past, int rows, const bfloat16* qkv,
                                        bfloat16* keys, bfloat16* values) {
  const std::size_t eights = elements(rows, s.kv_width()) / 8;
  compute_.gpu().launch(Kernel::append_to_cache, {(eights + append_threads - 1) / append_threads},
                        append_threads, 0, rows, past, s.context, s.head_width, s.kv_width(), s.qkv_width(),
                        qkv, keys, values);
}

void CudaDecodeCompute::cached_attention(const CacheShape& s, int past, int rows, const bfloat16* qkv,
                                         const bfloat16* keys, const bfloat16* values, bfloat16* out) {
  require(is_head_width(s.head_width),
          fmt::format("on a GPU attention heads are {} wide, and not {}", head_widths_text, s.head_width));
  const auto factor = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(s.head_width)));
  compute_.gpu().launch(Kernel::cached_attention,
                        {static_cast<std::size_t>(s.heads), static_cast<std::size_t>(rows)}, decode_threads,
                        decode_bytes, past, s.context, s.heads / s.kv_heads, s.head_width, s.qkv_width(),
                        factor, qkv, keys, values, out);
}

}  // namespace muster::compute::cuda
