// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/decode_compute.hpp"

namespace muster::compute::cuda {

class CudaCompute;

/// The operations of generation on the GPU of a CudaCompute, which must outlive it. As its other calls, these
/// enqueue their work and return. Keys and values are [kv_heads, context, head_width].
class CudaDecodeCompute final : public DecodeCompute<bfloat16> {
 public:
  explicit CudaDecodeCompute(CudaCompute& compute) : compute_(compute) {}

  void project(const bfloat16* x, int rows, const bfloat16* weight, const bfloat16* bias, bfloat16* out,
               int from, int to) override;
  void append_to_cache(const CacheShape& shape, int past, int rows, const bfloat16* qkv, bfloat16* keys,
                       bfloat16* values) override;
  void cached_attention(const CacheShape& shape, int past, int rows, const bfloat16* qkv,
                        const bfloat16* keys, const bfloat16* values, bfloat16* out) override;

 private:
  CudaCompute& compute_;
};

}  // namespace muster::compute::cuda
