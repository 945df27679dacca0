// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "compute/cuda/cublas_library.hpp"
#include "compute/cuda/gpu.hpp"

namespace muster::compute::cuda {

/// What a product does besides multiplying.
enum class Epilogue { none, bias, bias_gelu, gelu_backward, bias_gradient };

/// c[m, n] = a·b by rows, bfloat16; a is stored [k, m] when transpose_a, b is stored [n, k] when transpose_b.
struct ProductShape {
  int m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool float_result = false;  ///< c is float, else bfloat16
  Epilogue epilogue = Epilogue::none;
  bool operator==(const ProductShape&) const = default;
};

/// The memory of one product.
struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  /// bias, bias_gelu: [n], read; bias_gradient: [m], float: the sum over k of a. Else null.
  void* bias = nullptr;
  /// bias_gelu: [m, n], what GELU is taken of, written; gelu_backward: the same, read: c *= gelu'. Else null.
  void* before_gelu = nullptr;
};

/// Matrix products of cuBLASLt. For each shape descriptors are made and an algorithm is chosen once. Not
/// thread-safe.
class Products {
 public:
  /// `measure`: of the algorithms that cuBLASLt proposes take the one that was the fastest at the first call,
  /// which then waits; another start may then choose another one, whose sums are rounded in another order.
  /// Otherwise take the first that runs, which is the same at every start on the same GPU.
  Products(Gpu& gpu, bool measure);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// "13.1.0".
  std::string version() const;
  /// False when cuBLASLt has no algorithm for it; nothing was done then.
  bool multiply(const ProductShape& shape, const ProductOperands& operands);

 private:
  struct Plan;
  Plan& plan_for(const ProductShape& shape, const ProductOperands& operands);
  void choose(Plan& plan, const ProductOperands& operands);
  template <typename Value>
  void set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                      Value value);
  cublasStatus_t run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                     const ProductOperands& operands);
  double time_of(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const ProductOperands& operands);

  Gpu& gpu_;
  CublasLibrary cublas_;
  cublasLtHandle_t handle_ = nullptr;
  bool measure_;
  void* workspace_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace muster::compute::cuda
