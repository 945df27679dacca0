// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/precision.hpp"

namespace muster::compute {

/// A layer's cache of the keys and values of up to `context` tokens. Each of both has kv_heads * context *
/// head_width elements, whose order is the device's.
struct CacheShape {
  int heads = 0, kv_heads = 0, head_width = 0, context = 0;

  int kv_width() const { return kv_heads * head_width; }
  int qkv_width() const { return heads * head_width + 2 * kv_width(); }
};

/// The operations of a model that generates, on one device, beside those of Compute. Rows are (query | key |
/// value) as for Compute::attention(). Not thread-safe.
template <typename Real>
class DecodeCompute {
 public:
  virtual ~DecodeCompute() = default;

  /// out[rows, to] = x[rows, from]·weight[to, from]^T + bias (unless null).
  virtual void project(const Real* x, int rows, const Real* weight, const Real* bias, Real* out, int from,
                       int to) = 0;
  /// Puts the rows' keys and values at the positions from `past` on.
  virtual void append_to_cache(const CacheShape& shape, int past, int rows, const Real* qkv, Real* keys,
                               Real* values) = 0;
  /// Causal attention of the rows' queries, at the positions from `past` on, to a cache that holds these
  /// positions too: out [rows, heads * head_width]. Head h uses the cache's head h * kv_heads / heads.
  virtual void cached_attention(const CacheShape& shape, int past, int rows, const Real* qkv,
                                const Real* keys, const Real* values, Real* out) = 0;
};

}  // namespace muster::compute
