// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cpu/kernels.hpp"
#include "compute/llama_compute.hpp"

namespace muster::compute::cpu {

template <typename Real>
class CpuCompute;

/// The operations of Llama models on the threads of a CpuCompute, which must outlive it.
template <typename Real>
class CpuLlamaCompute final : public LlamaCompute<Real> {
 public:
  using Sum = Accurate<Real>;
  CpuLlamaCompute(CpuCompute<Real>& compute, const Kernels<Real>& kernels);

  void embed(const Token* tokens, const Real* token_table, Sum* out, int rows, int width) override;
  void embed_backward(const Token* tokens, const Sum* d_out, Sum* d_token_table, int rows,
                      int width) override;
  void clear(Sum* gradient, std::size_t count) override;
  void rms_norm(const Sum* x, const Real* addend, Sum* sum, const Real* gain, Real* out, Sum* rstd, int rows,
                int width, double epsilon) override;
  void rms_norm_backward(const Sum* x, const Real* gain, const Sum* rstd, const Real* d_out, Sum* d_x,
                         Real* rounded, Sum* d_gain, int rows, int width) override;
  void rotate(const RotaryShape& shape, const Sum* table, Real* x, bool back) override;
  void swiglu(const Real* gate_up, Real* out, int rows, int width) override;
  void swiglu_backward(const Real* gate_up, const Real* d_out, Real* d_gate_up, int rows, int width) override;

 private:
  /// kernel(begin, end) for ranges of rows, over the threads.
  template <typename Kernel>
  void for_rows(int rows, int width, const Kernel& kernel);

  CpuCompute<Real>& compute_;
  int threads_;
  const LlamaKernels<Real>& kernels_;
};

}  // namespace muster::compute::cpu
