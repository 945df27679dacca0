// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/cpu_batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {
namespace {

/// Elements of a block of rows: with 4 bytes each, a third of a level-1 cache. Blocks of wide rows are
/// longer, so that their sums stay few.
constexpr std::size_t block_elements = 4096, least_block_rows = 64;

std::size_t block_rows(int channels) {
  return std::max(block_elements / static_cast<std::size_t>(channels), least_block_rows);
}

}  // namespace

template <typename Real>
template <typename F>
void CpuBatchNorm<Real>::for_row_blocks(std::size_t rows, int channels, F&& f) {
  const std::size_t size = block_rows(channels), blocks = (rows + size - 1) / size;
  parallel_for(threads_, blocks, 1, rows * static_cast<std::size_t>(channels),
               [&](std::size_t first, std::size_t last) {
                 for (std::size_t block = first; block < last; ++block) {
                   f(static_cast<std::ptrdiff_t>(block * size),
                     static_cast<std::ptrdiff_t>(std::min((block + 1) * size, rows)), block);
                 }
               });
}

template <typename Real>
void CpuBatchNorm<Real>::moments(std::size_t rows, int channels, const Real* x, double* mean,
                                 double* squares) {
  const auto width = static_cast<std::size_t>(channels);
  const std::size_t size = block_rows(channels), blocks = (rows + size - 1) / size;
  if (partial_.size() < 2 * blocks * width) partial_ = Arena<Sum>(2 * blocks * width);
  Sum *means = partial_.data(), *spreads = means + blocks * width;
  for_row_blocks(rows, channels, [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::size_t block) {
    kernels_.moments(x, means + block * width, spreads + block * width, begin, end, channels);
  });
  // Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
  // (1979), for many parts at once.
  const auto count = [&](std::size_t block) {
    return static_cast<double>(std::min(size, rows - block * size));
  };
  std::fill_n(mean, width, 0.0);
  std::fill_n(squares, width, 0.0);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t i = 0; i < width; ++i) mean[i] += count(block) * double(means[block * width + i]);
  }
  for (std::size_t i = 0; i < width; ++i) mean[i] /= static_cast<double>(rows);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t i = 0; i < width; ++i) {
      const double off = double(means[block * width + i]) - mean[i];
      squares[i] += double(spreads[block * width + i]) + count(block) * off * off;
    }
  }
}

template <typename Real>
void CpuBatchNorm<Real>::scale_and_shift(std::size_t rows, int channels, const Real* x, const Sum* scale,
                                         const Sum* shift, const Real* addend, bool relu, Real* out) {
  for_row_blocks(rows, channels, [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::size_t) {
    kernels_.scale_and_shift(x, scale, shift, addend, relu, out, begin, end, channels);
  });
}

template <typename Real>
void CpuBatchNorm<Real>::gradient_sums(std::size_t rows, int channels, const Real* x, const Sum* mean,
                                       const Real* out, Real* d_out, const Real* d_also, double* sum,
                                       double* dot) {
  const auto width = static_cast<std::size_t>(channels);
  const std::size_t size = block_rows(channels), blocks = (rows + size - 1) / size;
  if (partial_.size() < 2 * blocks * width) partial_ = Arena<Sum>(2 * blocks * width);
  Sum *sums = partial_.data(), *dots = sums + blocks * width;
  for_row_blocks(rows, channels, [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::size_t block) {
    kernels_.gradient_sums(x, mean, out, d_out, d_also, sums + block * width, dots + block * width, begin,
                           end, channels);
  });
  std::fill_n(sum, width, 0.0);
  std::fill_n(dot, width, 0.0);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t i = 0; i < width; ++i) {
      sum[i] += double(sums[block * width + i]);
      dot[i] += double(dots[block * width + i]);
    }
  }
}

template <typename Real>
void CpuBatchNorm<Real>::gradient(std::size_t rows, int channels, const Real* x, const Real* g,
                                  const Sum* mean, const Sum* by_g, const Sum* by_x, const Sum* constant,
                                  Real* d_x) {
  for_row_blocks(rows, channels, [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::size_t) {
    kernels_.gradient(x, g, mean, by_g, by_x, constant, d_x, begin, end, channels);
  });
}

template <typename Real>
double CpuBatchNorm<Real>::statistics(const BatchNorm<Real>& norm) {
  const auto channels = static_cast<std::size_t>(norm.channels);
  sums_.resize(1 + 2 * channels);
  double *mean = &sums_[1], *squares = mean + channels;
  moments(norm.rows(), norm.channels, norm.x, mean, squares);
  const auto rows = static_cast<double>(norm.rows());
  if (norm.all_reduce == nullptr) return rows;
  sums_[0] = rows;
  for (std::size_t i = 0; i < channels; ++i) {
    squares[i] += rows * mean[i] * mean[i];
    mean[i] *= rows;
  }
  (*norm.all_reduce)(sums_);
  const double count = sums_[0];
  for (std::size_t i = 0; i < channels; ++i) {
    mean[i] /= count;
    squares[i] = std::max(squares[i] - count * mean[i] * mean[i], 0.0);
  }
  return count;
}

template <typename Real>
void CpuBatchNorm<Real>::normalize(const BatchNorm<Real>& norm, Sum* batch_mean, Sum* batch_variance,
                                   double share) {
  const double count = statistics(norm);
  const auto channels = static_cast<std::size_t>(norm.channels);
  const double *mean = &sums_[1], *squares = mean + channels;
  for (std::size_t i = 0; i < channels; ++i) {
    norm.mean[i] = Sum(mean[i]);
    norm.rstd[i] = Sum(1 / std::sqrt(squares[i] / count + batch_norm_epsilon));
    batch_mean[i] = Sum(share * mean[i]);
    batch_variance[i] = Sum(share * squares[i] / std::max(count - 1, 1.0));
  }
  apply(norm);
}

template <typename Real>
void CpuBatchNorm<Real>::normalize_by(const BatchNorm<Real>& norm, const Sum* mean, const Sum* variance) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(norm.channels); ++i) {
    norm.mean[i] = mean[i];
    norm.rstd[i] = Sum(1 / std::sqrt(static_cast<double>(variance[i]) + batch_norm_epsilon));
  }
  apply(norm);
}

template <typename Real>
void CpuBatchNorm<Real>::apply(const BatchNorm<Real>& norm) {
  const auto channels = static_cast<std::size_t>(norm.channels);
  scale_.resize(channels);
  shift_.resize(channels);
  for (std::size_t i = 0; i < channels; ++i) {
    const double scale = static_cast<double>(norm.gain[i]) * static_cast<double>(norm.rstd[i]);
    scale_[i] = Sum(scale);
    shift_[i] = Sum(static_cast<double>(norm.bias[i]) - static_cast<double>(norm.mean[i]) * scale);
  }
  scale_and_shift(norm.rows(), norm.channels, norm.x, scale_.data(), shift_.data(), norm.addend, norm.relu,
                  norm.out);
}

// With h = (x - mean) rstd and N rows: d_x = gain rstd (g - sum g / N - h sum(g h) / N).
template <typename Real>
void CpuBatchNorm<Real>::backward(const BatchNorm<Real>& norm, Real* d_out, const Real* d_also, Real* d_x,
                                  Sum* d_gain, Sum* d_bias) {
  const auto channels = static_cast<std::size_t>(norm.channels);
  sums_.resize(1 + 2 * channels);
  double *sum = &sums_[1], *dot = sum + channels;
  gradient_sums(norm.rows(), norm.channels, norm.x, norm.mean, norm.relu ? norm.out : nullptr, d_out, d_also,
                sum, dot);
  for (std::size_t i = 0; i < channels; ++i) {
    d_gain[i] = Sum(dot[i] * static_cast<double>(norm.rstd[i]));
    d_bias[i] = Sum(sum[i]);
  }
  sums_[0] = static_cast<double>(norm.rows());
  if (norm.all_reduce != nullptr) (*norm.all_reduce)(sums_);
  by_x_.resize(channels);
  scale_.resize(channels);
  shift_.resize(channels);
  for (std::size_t i = 0; i < channels; ++i) {
    const auto rstd = static_cast<double>(norm.rstd[i]);
    const double by_g = static_cast<double>(norm.gain[i]) * rstd;
    scale_[i] = Sum(by_g);
    by_x_[i] = Sum(-by_g * rstd * rstd * dot[i] / sums_[0]);
    shift_[i] = Sum(-by_g * sum[i] / sums_[0]);
  }
  gradient(norm.rows(), norm.channels, norm.x, d_out, norm.mean, scale_.data(), by_x_.data(), shift_.data(),
           d_x);
}

template class CpuBatchNorm<float>;
template class CpuBatchNorm<double>;
template class CpuBatchNorm<bfloat16>;

}  // namespace muster::compute::cpu
