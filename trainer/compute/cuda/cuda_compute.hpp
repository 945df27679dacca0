// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "compute/cuda/cuda_decode_compute.hpp"
#include "compute/cuda/cuda_image_compute.hpp"
#include "compute/cuda/cuda_llama_compute.hpp"
#include "compute/cuda/cuda_side_stream.hpp"
#include "compute/cuda/gpu.hpp"
#include "compute/cuda/kernels/update_step.hpp"
#include "compute/cuda/matmul.hpp"
#include "compute/cuda/staging.hpp"
#include "compute/cuda/token_sort_index.hpp"
#include "compute/cuda/transfer_memory.hpp"

namespace muster::compute::cuda {

/// A model's arithmetic on this process's GPU, in bfloat16 with float sums: matrix products by cuBLASLt,
/// convolutions and batch normalization by cuDNN, everything else by our own kernels. Calls enqueue their
/// work and return. Only these wait: loss(), outcome(), sum_of_squares(), the memory's copies,
/// count_correct() and send() of images(), and calls that need more scratch memory than before, as in the
/// first step. No sum is formed by atomics: equal calls on equal GPUs give equal bits.
///
/// Heads are 32, 64, 96 or 128 wide. Row widths are multiples of 8, and at most 2048 for LayerNorm.
/// @throws Error(ErrorCode::device) with CUDA's, cuBLASLt's or cuDNN's reason; Error(ErrorCode::usage) for
/// other geometries.
class CudaCompute final : public Compute<bfloat16> {
 public:
  struct Options {
    /// Let cuBLASLt compute GELU, its gradient and bias gradients in the epilogue of products, where it can
    /// and its autotuning has not found this slower.
    bool fuse = true;
    /// Of every wait for the GPU.
    std::chrono::milliseconds wait_limit = Gpu::default_wait_limit;
  };
  explicit CudaCompute(const Options& options);
  ~CudaCompute() override;

  Gpu& gpu() noexcept { return gpu_; }
  /// Loads cuDNN in the first call.
  /// @throws Error(ErrorCode::device) without cuDNN.
  ImageCompute<bfloat16>* images() override;
  LlamaCompute<bfloat16>* llama() override { return &llama_; }
  DecodeCompute<bfloat16>* decode() override { return &decode_; }
  /// The arena's memory, which it first makes large enough. Waits in that case.
  template <typename Number>
  Number* scratch(Arena<Number>& arena, std::size_t count) {
    if (arena.size() < count) {
      arena = {};
      arena = Arena<Number>(count, gpu_);
    }
    return arena.data();
  }
  std::string describe() const override;
  Memory& memory() override { return gpu_; }
  Memory& transfer_memory() override { return transfer_memory_; }
  std::size_t allocated_bytes() const override { return gpu_.allocated(); }
  Autotuner* autotuner() override { return matmul_.get(); }
  Stream stream() const override { return gpu_.stream(); }
  std::unique_ptr<SideStream> open_side_stream() override { return std::make_unique<CudaSideStream>(gpu_); }
  void wait() override { gpu_.synchronize(); }

  void matmul(const MatmulShape& shape, const bfloat16* a, const bfloat16* b, const bfloat16* bias,
              bfloat16* c) override;
  void weight_gradient(int rows, int from, int to, const bfloat16* input, const bfloat16* d_out,
                       float* d_weight, float* d_bias) override;
  void matmul_gelu(int rows, int from, int to, const bfloat16* input, const bfloat16* weight,
                   const bfloat16* bias, bfloat16* wide, bfloat16* out) override;
  void matmul_gelu_backward(int rows, int from, int to, const bfloat16* d_out, const bfloat16* weight,
                            const bfloat16* wide, bfloat16* d_wide) override;
  void embed(const Token* tokens, const bfloat16* token_table, const bfloat16* position_table, float* out,
             int batch, int length, int width) override;
  void embed_backward(const Token* tokens, const float* d_out, float* d_token_table, float* d_position_table,
                      int batch, int length, int positions, int width) override;
  void layer_norm(const float* x, const bfloat16* addend, float* sum, const bfloat16* gain,
                  const bfloat16* bias, bfloat16* out, float* mean, float* rstd, int rows,
                  int width) override;
  void layer_norm_backward(const float* x, const bfloat16* gain, const float* mean, const float* rstd,
                           const bfloat16* d_out, float* d_x, bfloat16* rounded, float* d_gain, float* d_bias,
                           int rows, int width) override;
  void gelu(const bfloat16* x, bfloat16* out, std::size_t count) override;
  void gelu_backward(const bfloat16* x, bfloat16* d_inout, std::size_t count) override;
  void attention(const AttentionShape& shape, const bfloat16* qkv, bfloat16* out, float* log_sum) override;
  void attention_backward(const AttentionShape& shape, const bfloat16* qkv, const bfloat16* out,
                          const float* log_sum, const bfloat16* d_out, bfloat16* d_qkv) override;
  /// A multiple of 64, so that products with the token table are aligned.
  int padded_classes(int classes) const override { return (classes + 63) / 64 * 64; }
  void compute_cross_entropy(bfloat16* logits, const Token* targets, int rows, int classes,
                             float gradient_scale) override;
  double loss() override;
  void save_loss(double* to) override;
  void restore_loss(const double* from) override;

  void begin_step(std::size_t chunks, std::size_t batches) override;
  void accumulate(const float* x, float* sum, std::size_t count, bool first) override;
  void check_finite(const float* gradient, std::size_t count, std::size_t position, double* squares) override;
  void end_chunk(std::size_t chunk, double scale, bool stop, bool failed, float* slots) override;
  std::optional<double> decide(const float* slots, const float* gradients, std::span<const std::size_t> ends,
                               double clip) override;
  std::optional<double> decide_from_squares(const float* slots, std::span<const double> squares,
                                            double clip) override;
  void end_step() override;
  Stream outcome_stream() override;
  StepOutcome outcome() override;
  void drop_outcomes() override { outcomes_ = steps_begun_; }
  double sum_of_squares(const float* x, std::size_t count, std::size_t position) override;
  void write_square_sum(const float* x, std::size_t count, std::size_t position, double* sum) override;
  void clear(void* memory, std::size_t bytes) override { gpu_.clear(memory, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { gpu_.copy(to, from, bytes); }
  void sgd(const SgdStep& step, float* parameter, const float* gradient, float* momentum, bfloat16* rounded,
           std::size_t count) override;
  void adamw(const AdamwStep& step, float* parameter, const float* gradient, float* moment1, float* moment2,
             bfloat16* rounded, std::size_t count) override;
  void move_statistics(float* statistic, const float* batch, std::size_t count, double momentum) override;
  void round(const float* parameter, bfloat16* rounded, std::size_t count) override;

 private:
  void multiply(const CublasMatmulShape& shape, const CublasMatmulOperands& operands);
  void column_sums(const bfloat16* x, float* out, int rows, int width);
  /// The results of one step, on the device.
  struct StepState;
  StepState* device_state();

  Options options_;
  Gpu gpu_;
  TransferMemory transfer_memory_{gpu_};
  std::unique_ptr<CublasMatmul> matmul_;
  Staging tokens_{gpu_}, targets_{gpu_}, order_{gpu_};
  TokenSortIndex token_sort_index_;
  CudaLlamaCompute llama_{*this};
  CudaDecodeCompute decode_{*this};
  std::unique_ptr<CudaImageCompute> images_;  ///< created when a model first needs it
  std::vector<std::byte> order_bytes_;
  Arena<float> partial_;  ///< for sums that are formed in two steps
  Arena<float> losses_, dots_;
  Arena<double> squares_;         ///< parts of a sum
  Arena<double> tensor_squares_;  ///< sums of decide()
  Arena<std::byte> step_;         ///< a StepState
  Arena<float> chunk_flags_;
  PinnedMemory scalar_{gpu_, sizeof(double)};  ///< read by loss() and sum_of_squares()
  /// outcome() reads these: one buffer for a step and one for the next step, which begins before.
  struct OutcomeBuffer {
    explicit OutcomeBuffer(Gpu& gpu) : ready(gpu) {}
    std::unique_ptr<PinnedMemory> memory;
    std::size_t capacity = 0, chunks = 0;
    Event ready;
  };
  OutcomeBuffer outcome_buffers_[2]{OutcomeBuffer(gpu_), OutcomeBuffer(gpu_)};
  std::uint64_t steps_begun_ = 0, outcomes_ = 0;  ///< modulo 2 they index outcome_buffers_
  CUstream outcome_stream_ = nullptr;
};

}  // namespace muster::compute::cuda
