// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace muster::compute::cuda
