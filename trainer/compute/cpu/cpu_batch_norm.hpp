// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "compute/arena.hpp"
#include "compute/cpu/kernels.hpp"
#include "compute/image_compute.hpp"

namespace muster::compute::cpu {

/// Batch normalization on the cores of this process; ImageCompute documents it. Results do not depend on the
/// number of threads.
template <typename Real>
class CpuBatchNorm {
 public:
  using Sum = Accurate<Real>;
  CpuBatchNorm(int threads, const Kernels<Real>& kernels) : threads_(threads), kernels_(kernels.batch_norm) {}

  void normalize(const BatchNorm<Real>& norm, Sum* batch_mean, Sum* batch_variance, double share);
  void normalize_by(const BatchNorm<Real>& norm, const Sum* mean, const Sum* variance);
  void backward(const BatchNorm<Real>& norm, Real* d_out, const Real* d_also, Real* d_x, Sum* d_gain,
                Sum* d_bias);

  /// Per channel of x [rows, channels]: the mean and the sum of squared differences from it.
  void moments(std::size_t rows, int channels, const Real* x, double* mean, double* squares);
  /// out = scale * x + shift (+ addend, unless null), then ReLU if `relu`; scale and shift per channel.
  void scale_and_shift(std::size_t rows, int channels, const Real* x, const Sum* scale, const Sum* shift,
                       const Real* addend, bool relu, Real* out);
  /// The sums that the gradient needs. With g = d_out + d_also (if not null), zero where `out` (if not null:
  /// after a ReLU) is not positive, per channel: sum of g, and dot = the sum of g * (x - mean). Overwrites
  /// d_out with g.
  void gradient_sums(std::size_t rows, int channels, const Real* x, const Sum* mean, const Real* out,
                     Real* d_out, const Real* d_also, double* sum, double* dot);
  /// d_x = by_g * g + by_x * (x - mean) + constant, all four factors per channel. d_x may be g.
  void gradient(std::size_t rows, int channels, const Real* x, const Real* g, const Sum* mean,
                const Sum* by_g, const Sum* by_x, const Sum* constant, Real* d_x);

 private:
  /// Calls f(begin, end, block) for blocks of rows that fit a level-1 cache, over the threads.
  template <typename F>
  void for_row_blocks(std::size_t rows, int channels, F&& f);
  /// The means and sums of squares in sums_, of all ranks if norm.all_reduce is set. Returns their rows.
  double statistics(const BatchNorm<Real>& norm);
  void apply(const BatchNorm<Real>& norm);

  int threads_;
  const BatchNormKernels<Real>& kernels_;
  Arena<Sum> partial_;                     ///< two sums of each block of rows
  std::vector<double> sums_;               ///< [count, first sum, second sum] of the channels
  std::vector<Sum> scale_, shift_, by_x_;  ///< factors of the channels
};

}  // namespace muster::compute::cpu
