// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compute/autotuner.hpp"
#include "compute/cuda/autotune_results.hpp"
#include "compute/cuda/cublas_library.hpp"
#include "compute/cuda/gpu.hpp"
#include "compute/cuda/matmul_shape.hpp"

namespace muster::compute::cuda {

/// The memory of one product.
struct CublasMatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  /// bias, bias_gelu: [n], read. bias_gradient: [m], float, written: the sum of a over k. Else null.
  void* bias = nullptr;
  /// bias_gelu: [m, n], GELU's input, written. gelu_backward: the same, read: c *= gelu'. Else null.
  void* before_gelu = nullptr;
};

/// Matrix products by cuBLASLt. Descriptors are made and an algorithm is chosen once per shape: the one of
/// loaded results, else the fastest of those that cuBLASLt proposes while timing is on, else its first that
/// runs. The first is the same in every run on GPUs of one model. Not thread-safe.
class CublasMatmul final : public Autotuner {
 public:
  explicit CublasMatmul(Gpu& gpu);
  ~CublasMatmul() override;
  CublasMatmul(const CublasMatmul&) = delete;
  CublasMatmul& operator=(const CublasMatmul&) = delete;

  /// "13.1.0".
  std::string version() const;
  /// False, with nothing done, when cuBLASLt has no algorithm for this product.
  bool multiply(const CublasMatmulShape& shape, const CublasMatmulOperands& operands);
  /// Computes a product with an epilogue, or else calls `separate`, which computes the same without one: the
  /// faster of both, where it was timed; else the product if cuBLASLt has an algorithm for it.
  void multiply_or(const CublasMatmulShape& shape, const CublasMatmulOperands& operands,
                   const std::function<void()>& separate);

  std::string load(const std::string& results) override;
  void set_timing(bool on) override { timing_ = on; }
  std::string results() const override;
  std::string plans() const override;
  int timed() const override { return timed_; }

 private:
  struct Plan;
  Plan& find_plan(const CublasMatmulShape& shape, const CublasMatmulOperands& operands);
  bool use_result(Plan& plan, const CublasMatmulOperands& operands);
  std::vector<cublasLtMatmulHeuristicResult_t> propose_algorithms(const Plan& plan);
  void use_first(Plan& plan, const CublasMatmulOperands& operands);
  void use_fastest(Plan& plan, const CublasMatmulOperands& operands);
  void time_separate(Plan& plan, const std::function<void()>& separate);
  MatmulCandidate describe(const cublasLtMatmulHeuristicResult_t& proposed) const;
  template <typename Value>
  void set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                      Value value);
  cublasStatus_t run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                     const CublasMatmulOperands& operands);
  void run_chosen(const Plan& plan, const CublasMatmulOperands& operands);
  double measure_microseconds(const std::function<void()>& work);

  Gpu& gpu_;
  CublasLibrary cublas_;
  cublasLtHandle_t handle_ = nullptr;
  AutotuneResults loaded_;
  bool timing_ = false;
  int timed_ = 0;
  void* workspace_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace muster::compute::cuda
