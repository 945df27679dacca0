// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/compute.hpp"

namespace muster::compute::cpu {

/// Matrix products by oneDNN, with one cached primitive per shape and types. Sums are formed in float. Uses
/// OpenMP's threads (omp_set_num_threads). Not thread-safe.
class DnnlMatmul {
 public:
  DnnlMatmul();
  ~DnnlMatmul();

  /// Computes c as MatmulShape defines it. bias may be null unless shape.bias.
  /// @throws muster::Error(ErrorCode::system) when oneDNN refuses the shape.
  void operator()(const MatmulShape& shape, const float* a, const float* b, const float* bias, float* c);
  void operator()(const MatmulShape& shape, const bfloat16* a, const bfloat16* b, const bfloat16* bias,
                  bfloat16* c);
  /// d_weight[to, from] = d_out[rows, to]^T·input[rows, from].
  void weight_gradient(int rows, int from, int to, const bfloat16* input, const bfloat16* d_out,
                       float* d_weight);

  /// "oneDNN 2.6.3", or "own matrix product" when built without oneDNN.
  static const char* name();
  /// False when built without oneDNN, or when oneDNN has no such products for this processor. Then the
  /// operators must not be called.
  template <typename Real>
  static bool available();
  /// Whether the processor has bfloat16 product instructions; without them oneDNN emulates these products.
  static bool has_fast_bfloat16();

 private:
  struct Operands;
  void multiply(const MatmulShape& shape, const Operands& operands);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::compute::cpu
