// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "compute/cpu/convolution.hpp"
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
  void batch_moments(std::size_t rows, int channels, const Real* x, double* mean, double* squares) override;
  void scale_and_shift(std::size_t rows, int channels, const Real* x, const Sum* scale, const Sum* shift,
                       const Real* addend, bool relu, Real* out) override;
  void batch_gradient_sums(std::size_t rows, int channels, const Real* x, const Sum* mean, const Real* out,
                           Real* d_out, const Real* d_also, double* sum, double* dot) override;
  void batch_gradient(std::size_t rows, int channels, const Real* x, const Real* g, const Sum* mean,
                      const Sum* by_g, const Sum* by_x, const Sum* constant, Real* d_x) override;
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

 private:
  /// Calls f(begin, end, block) for blocks of rows that fit a level-1 cache, over the threads.
  template <typename F>
  void for_row_blocks(std::size_t rows, int channels, F&& f);

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
  Arena<Sum> partial_;  ///< two sums of each block of rows
};

}  // namespace muster::compute::cpu
