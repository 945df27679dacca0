// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compute/compute.hpp"
#include "compute/cpu/convolution.hpp"

namespace muster::compute::cpu {

/// Convolutions as matrix products of each image's windows; depthwise ones as plain loops. For double, and
/// where oneDNN has none. Sums over images are formed in the order of images.
template <typename Real>
class UnfoldedConvolution final : public Convolution<Real> {
 public:
  using Sum = Accurate<Real>;
  /// `compute` multiplies the matrices and must outlive this object.
  explicit UnfoldedConvolution(Compute<Real>& compute) : compute_(compute) {}

  void forward(const ConvolutionShape& shape, const Real* images, const Real* weight, const Real* bias,
               Real* out) override;
  void backward_images(const ConvolutionShape& shape, const Real* d_out, const Real* weight,
                       Real* d_images) override;
  void backward_weight(const ConvolutionShape& shape, const Real* images, const Real* d_out, Sum* d_weight,
                       Sum* d_bias) override;

 private:
  Compute<Real>& compute_;
  std::vector<Real> columns_;
  std::vector<Sum> sums_;
};

}  // namespace muster::compute::cpu
