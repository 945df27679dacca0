// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "compute/cpu/cpu_decode_compute.hpp"
#include "compute/cpu/cpu_image_compute.hpp"
#include "compute/cpu/cpu_llama_compute.hpp"
#include "compute/cpu/dnnl_matmul.hpp"
#include "compute/cpu/kernels.hpp"

namespace muster::compute::cpu {

/// Compute on the cores of this process. Only this class divides rows over OpenMP threads; the kernels are
/// single-threaded. oneDNN computes float and bfloat16 products where it is available and supports them; our
/// tiled product computes all others.
template <typename Real>
class CpuCompute final : public Compute<Real> {
 public:
  struct Options {
    int threads = 1;
    bool use_dnnl = true;                    ///< if available; never for double
    const Kernels<Real>* kernels = nullptr;  ///< null: the best for this processor
  };
  using Sum = Accurate<Real>;
  explicit CpuCompute(const Options& options);

  std::string describe() const override;
  int threads() const override { return threads_; }
  ImageCompute<Real>* images() override;
  LlamaCompute<Real>* llama() override { return &llama_; }
  DecodeCompute<Real>* decode() override { return &decode_; }
  void matmul(const MatmulShape& shape, const Real* a, const Real* b, const Real* bias, Real* c) override;
  void weight_gradient(int rows, int from, int to, const Real* input, const Real* d_out, Sum* d_weight,
                       Sum* d_bias) override;
  void embed(const Token* tokens, const Real* token_table, const Real* position_table, Sum* out, int batch,
             int length, int width) override;
  void embed_backward(const Token* tokens, const Sum* d_out, Sum* d_token_table, Sum* d_position_table,
                      int batch, int length, int positions, int width) override;
  void layer_norm(const Sum* x, const Real* addend, Sum* sum, const Real* gain, const Real* bias, Real* out,
                  Sum* mean, Sum* rstd, int rows, int width) override;
  void layer_norm_backward(const Sum* x, const Real* gain, const Sum* mean, const Sum* rstd,
                           const Real* d_out, Sum* d_x, Real* rounded, Sum* d_gain, Sum* d_bias, int rows,
                           int width) override;
  void gelu(const Real* x, Real* out, std::size_t count) override;
  void gelu_backward(const Real* x, Real* d_inout, std::size_t count) override;
  void attention(const AttentionShape& shape, const Real* qkv, Real* out, Sum* log_sum) override;
  void attention_backward(const AttentionShape& shape, const Real* qkv, const Real* out, const Sum* log_sum,
                          const Real* d_out, Real* d_qkv) override;
  void compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                             Sum gradient_scale) override;
  double sum_of_squares(const Sum* x, std::size_t count, std::size_t position) override;
  void adamw(const AdamwStep& step, Sum* parameter, const Sum* gradient, Sum* moment1, Sum* moment2,
             bfloat16* rounded, std::size_t count) override;
  void sgd(const SgdStep& step, Sum* parameter, const Sum* gradient, Sum* momentum, bfloat16* rounded,
           std::size_t count) override;
  void accumulate(const Sum* x, Sum* sum, std::size_t count, bool first) override;
  void round(const Sum* parameter, bfloat16* rounded, std::size_t count) override;

  /// Sums `totals.size()` rows of `width` values: kernel(sums, begin, end) adds the part of rows [begin, end)
  /// to zeroed sums, one total after the other. The order does not depend on the number of threads.
  using SumKernel = std::function<void(Sum* sums, int begin, int end)>;
  void sum_rows(int rows, int width, std::initializer_list<Sum*> totals, const SumKernel& kernel);

 private:
  template <typename Out>
  void tiled_matmul(const MatmulShape& shape, const Real* a, const Real* b, const Real* bias, Out* c);
  void tiled_panels(const MatmulShape& shape, const Sum* a, const Real* b, const Real* bias, Sum* c);
  void column_sums(const Real* x, Sum* out, int rows, int width);
  /// Calls kernel(offset in qkv, offset in out, offset in log_sum, scratch, group) for the heads that share
  /// keys and values, of each sequence, over the threads.
  template <typename Kernel>
  void for_each_group(const AttentionShape& shape, const Kernel& kernel);
  /// This thread's part of the memory from reserve_scratch().
  Sum* scratch(int thread);
  void reserve_scratch(std::size_t size_per_thread);

  int threads_;
  bool use_dnnl_;
  const Kernels<Real>& kernels_;
  CpuLlamaCompute<Real> llama_;
  CpuDecodeCompute<Real> decode_;
  std::unique_ptr<DnnlMatmul> dnnl_;               ///< null: use the tiled product
  std::unique_ptr<CpuImageCompute<Real>> images_;  ///< created when a model first needs it
  Arena<Sum> scratch_;
  std::size_t scratch_size_ = 0;  ///< elements per thread
  Arena<Sum> partial_;            ///< partial sums of row chunks
  Arena<Sum> wide_a_, wide_c_;    ///< copies in Sum of the tiled product's operands of other types
  std::vector<double> sums_;      ///< one per row or block, added in order
};

}  // namespace muster::compute::cpu
