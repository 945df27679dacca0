// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/arena.hpp"
#include "compute/cpu/kernels.hpp"
#include "compute/decode_compute.hpp"

namespace muster::compute::cpu {

template <typename Real>
class CpuCompute;

/// The operations of generation on the threads of a CpuCompute, which must outlive it. The same bits for any
/// number of threads.
template <typename Real>
class CpuDecodeCompute final : public DecodeCompute<Real> {
 public:
  using Sum = Accurate<Real>;
  CpuDecodeCompute(CpuCompute<Real>& compute, const Kernels<Real>& kernels);

  void project(const Real* x, int rows, const Real* weight, const Real* bias, Real* out, int from,
               int to) override;
  /// Keys are [kv_heads, head_width, context], values [kv_heads, context, head_width].
  void append_to_cache(const CacheShape& shape, int past, int rows, const Real* qkv, Real* keys,
                       Real* values) override;
  void cached_attention(const CacheShape& shape, int past, int rows, const Real* qkv, const Real* keys,
                        const Real* values, Real* out) override;

 private:
  CpuCompute<Real>& compute_;
  int threads_;
  const DecodeKernels<Real>& kernels_;
  Arena<Sum> scores_;  ///< one part for each thread
};

}  // namespace muster::compute::cpu
