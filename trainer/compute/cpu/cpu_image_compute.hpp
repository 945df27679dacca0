// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "compute/cpu/convolution.hpp"
#include "compute/cpu/cpu_batch_norm.hpp"
#include "compute/cpu/kernels.hpp"

namespace muster::compute::cpu {

/// ImageCompute on the cores of this process: convolutions by oneDNN where it has them, batch normalization
/// by own kernels. Results of the kernels do not depend on the number of threads.
template <typename Real>
class CpuImageCompute final : public ImageCompute<Real> {
 public:
  using Sum = Accurate<Real>;
  /// `compute` multiplies the matrices where oneDNN is not used, and must outlive this object.
  CpuImageCompute(Compute<Real>& compute, const Kernels<Real>& kernels, bool use_dnnl);

  void convolve(const ConvolutionShape& shape, const Real* images, const Real* weight, const Real* bias,
                Real* out) override;
  void convolve_backward_images(const ConvolutionShape& shape, const Real* d_out, const Real* weight,
                                Real* d_images) override;
  void convolve_backward_weight(const ConvolutionShape& shape, const Real* images, const Real* d_out,
                                Sum* d_weight, Sum* d_bias) override;
  void normalize(const BatchNorm<Real>& norm, Sum* batch_mean, Sum* batch_variance, double share) override;
  void normalize_by(const BatchNorm<Real>& norm, const Sum* mean, const Sum* variance) override;
  void normalize_backward(const BatchNorm<Real>& norm, Real* d_out, const Real* d_also, Real* d_x,
                          Sum* d_gain, Sum* d_bias) override;
  void max_pool(const PoolShape& shape, const Real* images, Real* out, std::uint8_t* places) override;
  void max_pool_backward(const PoolShape& shape, const std::uint8_t* places, const Real* d_out,
                         Real* d_images) override;
  void relu(int batch, std::size_t pixels, int channels, const Real* x, const Real* factor,
            Real* out) override;
  void relu_backward(int batch, std::size_t pixels, int channels, const Real* out, const Real* factor,
                     const Real* d_out, Real* d_x) override;
  void flatten(int batch, std::size_t pixels, int channels, const Real* from, bool back, Real* to) override;
  void mean_pool(int batch, std::size_t pixels, int channels, const Real* images, Real* out) override;
  void mean_pool_backward(int batch, std::size_t pixels, int channels, const Real* d_out,
                          Real* d_images) override;
  void shortcut(int batch, int height, int width, int channels, int out_channels, const Real* images,
                Real* out) override;
  void shortcut_backward(int batch, int height, int width, int channels, int out_channels, const Real* d_out,
                         Real* d_images) override;
  void add(const Real* from, Real* to, std::size_t count) override;
  std::int64_t count_correct(const Real* logits, const Token* targets, int rows, int classes) override;
  void compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                             Sum gradient_scale) override;
  const Real* send(const Real* host, std::size_t, std::size_t) override { return host; }

 private:
  /// Whether a convolution is a matrix product of pixels and channels.
  static bool is_product(const ConvolutionShape& shape) {
    return shape.window == 1 && shape.stride == 1 && shape.padding == 0 && shape.groups == 1;
  }

  /// Whether oneDNN 2.6 has no depthwise primitive for the weights' gradient, and takes ten times as long.
  static bool is_small_depthwise(const ConvolutionShape& shape) {
    return shape.groups > 1 && shape.window == 3 && shape.out_width() < 4;
  }
  void small_depthwise_weight(const ConvolutionShape& shape, const Real* images, const Real* d_out,
                              Sum* d_weight);

  Compute<Real>& compute_;
  int threads_;
  const Kernels<Real>& kernels_;
  std::unique_ptr<Convolution<Real>> convolution_;
  CpuBatchNorm<Real> batch_norm_;
  Arena<Sum> partial_;  ///< sums of a few images each
};

}  // namespace muster::compute::cpu
