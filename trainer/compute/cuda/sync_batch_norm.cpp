// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/sync_batch_norm.hpp"

#include <cstddef>
#include <span>

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/kernels/launch_sizes.hpp"

namespace muster::compute::cuda {

using namespace sizes;

namespace {

std::size_t channels_of(const SyncBatchNorm::Norm& norm) { return static_cast<std::size_t>(norm.channels); }
std::size_t parts_of(const SyncBatchNorm::Norm& norm) {
  return batch_norm_parts(norm.rows(), channels_of(norm));
}
Grid grid_of_rows(const SyncBatchNorm::Norm& norm) {
  return {channel_blocks(channels_of(norm)), parts_of(norm)};
}
Grid grid_of_sums(const SyncBatchNorm::Norm& norm) { return {(channels_of(norm) + 31) / 32}; }

}  // namespace

double* SyncBatchNorm::partial(const Norm& norm) {
  return compute_.scratch(partial_, 2 * parts_of(norm) * channels_of(norm));
}

double* SyncBatchNorm::sums(const Norm& norm) { return compute_.scratch(sums_, 1 + 2 * channels_of(norm)); }

void SyncBatchNorm::normalize(const Norm& norm, float* batch_mean, float* batch_variance, double share) {
  Gpu& gpu = compute_.gpu();
  const std::size_t rows = norm.rows(), channels = channels_of(norm);
  double *const parts = partial(norm), *const all = sums(norm);
  float* const variance = compute_.scratch(variance_, channels);
  gpu.launch(Kernel::norm_parts, grid_of_rows(norm), element_threads, batch_norm_parts_bytes, rows, channels,
             norm.x, parts);
  gpu.launch(Kernel::norm_sums, grid_of_sums(norm), element_threads, batch_norm_sums_bytes,
             static_cast<int>(parts_of(norm)), rows, channels, norm.x, static_cast<const double*>(parts),
             all);
  (*norm.all_reduce)(std::span(all, 1 + 2 * channels));
  gpu.launch(Kernel::norm_statistics, {channel_blocks(channels)}, element_threads, 0, channels,
             static_cast<const double*>(all), batch_norm_epsilon, share, norm.mean, variance, norm.rstd,
             batch_mean, batch_variance);
  batch_norm_.normalize_by(norm, norm.mean, variance);
}

void SyncBatchNorm::backward(const Norm& norm, const bfloat16* g, bfloat16* d_x, float* d_gain,
                             float* d_bias) {
  Gpu& gpu = compute_.gpu();
  const std::size_t rows = norm.rows(), channels = channels_of(norm);
  double *const parts = partial(norm), *const all = sums(norm);
  const float *const mean = norm.mean, *const rstd = norm.rstd;
  gpu.launch(Kernel::norm_gradient_parts, grid_of_rows(norm), element_threads, batch_norm_parts_bytes, rows,
             channels, norm.x, mean, g, parts);
  gpu.launch(Kernel::norm_gradient_sums, grid_of_sums(norm), element_threads, batch_norm_sums_bytes,
             static_cast<int>(parts_of(norm)), rows, channels, rstd, static_cast<const double*>(parts),
             d_gain, d_bias, all);
  (*norm.all_reduce)(std::span(all, 1 + 2 * channels));
  gpu.launch(Kernel::norm_backward, grid_of_rows(norm), element_threads, 0, rows, channels, norm.x, g, mean,
             rstd, norm.gain, static_cast<const double*>(all), d_x);
}

}  // namespace muster::compute::cuda
