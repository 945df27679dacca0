// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/compute.hpp"

namespace muster::compute::cpu {

/// Float matrix products through oneDNN, with one cached primitive per shape. Threads: those of OpenMP
/// (omp_set_num_threads). Not thread-safe.
class DnnlMatmul {
 public:
  DnnlMatmul();
  ~DnnlMatmul();

  /// c = as MatmulShape says. bias may be null unless shape.bias.
  /// @throws muster::Error(Fault::system) when oneDNN refuses the shape.
  void operator()(const MatmulShape& shape, const float* a, const float* b, const float* bias, float* c);

  /// "oneDNN 2.6.3", or "own matrix product" when built without oneDNN.
  static const char* name();
  /// False when built without oneDNN; the operator must not be called then.
  static bool available();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::compute::cpu
