// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/image_compute.hpp"

namespace muster::compute::cpu {

/// Convolutions on host memory, as ImageCompute defines them.
template <typename Real>
class Convolution {
 public:
  using Sum = Accurate<Real>;
  virtual ~Convolution() = default;
  virtual void forward(const ConvolutionShape& shape, const Real* images, const Real* weight,
                       const Real* bias, Real* out) = 0;
  virtual void backward_images(const ConvolutionShape& shape, const Real* d_out, const Real* weight,
                               Real* d_images) = 0;
  virtual void backward_weight(const ConvolutionShape& shape, const Real* images, const Real* d_out,
                               Sum* d_weight, Sum* d_bias) = 0;
};

/// oneDNN's convolutions, with cached primitives. Null when built without oneDNN, or when it has no fast ones
/// in this type for this processor.
std::unique_ptr<Convolution<float>> dnnl_convolution(const float*);
std::unique_ptr<Convolution<bfloat16>> dnnl_convolution(const bfloat16*);
inline std::unique_ptr<Convolution<double>> dnnl_convolution(const double*) { return nullptr; }

}  // namespace muster::compute::cpu
