// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "compute/cuda/cublas_library.hpp"
#include "compute/cuda/gpu.hpp"

namespace muster::compute::cuda {

/// The operation fused into a product.
enum class Epilogue { none, bias, bias_gelu, gelu_backward, bias_gradient };

/// c[m, n] = a·b, row-major, bfloat16; a is stored [k, m] when transpose_a, b is stored [n, k] when
/// transpose_b.
struct CublasMatmulShape {
  int m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool float_result = false;  ///< c is float, else bfloat16
  Epilogue epilogue = Epilogue::none;
  bool operator==(const CublasMatmulShape&) const = default;
};

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

/// Matrix products by cuBLASLt. Descriptors are made and an algorithm is chosen once per shape. Not
/// thread-safe.
class CublasMatmul {
 public:
  /// `measure`: time the algorithms that cuBLASLt proposes and take the fastest at the first call, which then
  /// waits. Another run may choose another algorithm, which rounds sums in another order. Otherwise take the
  /// first algorithm that runs, which is the same in every run on the same GPU.
  CublasMatmul(Gpu& gpu, bool measure);
  ~CublasMatmul();
  CublasMatmul(const CublasMatmul&) = delete;
  CublasMatmul& operator=(const CublasMatmul&) = delete;

  /// "13.1.0".
  std::string version() const;
  /// False, with nothing done, when cuBLASLt has no algorithm for this product.
  bool multiply(const CublasMatmulShape& shape, const CublasMatmulOperands& operands);

 private:
  struct Plan;
  Plan& find_plan(const CublasMatmulShape& shape, const CublasMatmulOperands& operands);
  void choose_algorithm(Plan& plan, const CublasMatmulOperands& operands);
  template <typename Value>
  void set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                      Value value);
  cublasStatus_t run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                     const CublasMatmulOperands& operands);
  double measure_seconds(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                         const CublasMatmulOperands& operands);

  Gpu& gpu_;
  CublasLibrary cublas_;
  cublasLtHandle_t handle_ = nullptr;
  bool measure_;
  void* workspace_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace muster::compute::cuda
