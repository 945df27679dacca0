// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/arena.hpp"
#include "compute/llama_compute.hpp"

namespace muster::compute::cuda {

class CudaCompute;

/// The operations of Llama models on the GPU of a CudaCompute, which must outlive it. As its other calls,
/// these enqueue their work and return. Heads are 32, 64, 96 or 128 wide, and row widths and the MLP's
/// multiples of 8.
class CudaLlamaCompute final : public LlamaCompute<bfloat16> {
 public:
  explicit CudaLlamaCompute(CudaCompute& compute) : compute_(compute) {}

  void embed(const Token* tokens, const bfloat16* token_table, float* out, int rows, int width) override;
  void embed_backward(const Token* tokens, const float* d_out, float* d_token_table, int rows,
                      int width) override;
  void clear(float* gradient, std::size_t count) override;
  void rms_norm(const float* x, const bfloat16* addend, float* sum, const bfloat16* gain, bfloat16* out,
                float* rstd, int rows, int width, double epsilon) override;
  void rms_norm_backward(const float* x, const bfloat16* gain, const float* rstd, const bfloat16* d_out,
                         float* d_x, bfloat16* rounded, float* d_gain, int rows, int width) override;
  void rotate(const RotaryShape& shape, const float* table, bfloat16* x, bool back) override;
  void swiglu(const bfloat16* gate_up, bfloat16* out, int rows, int width) override;
  void swiglu_backward(const bfloat16* gate_up, const bfloat16* d_out, bfloat16* d_gate_up, int rows,
                       int width) override;

 private:
  CudaCompute& compute_;
  Arena<float> partial_;  ///< sums of the blocks of RMSNorm's backward pass
};

}  // namespace muster::compute::cuda
