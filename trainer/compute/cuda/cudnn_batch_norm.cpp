// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cudnn_batch_norm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace muster::compute::cuda {
namespace {

std::string describe(const char* call, const CudnnBatchNorm::Norm& norm) {
  return fmt::format("{} for {} images of {} pixels with {} channels", call, norm.batch, norm.pixels,
                     norm.channels);
}

}  // namespace

CudnnBatchNorm::CudnnBatchNorm(Gpu& gpu, const CudnnLibrary& cudnn, CudnnHandle handle)
    : gpu_(gpu), cudnn_(cudnn), handle_(handle) {
  for (CudnnTensor* const each : {&pixels_, &channels_})
    cudnn_.require(cudnn_.tensor_create(each), "cudnnCreateTensorDescriptor");
}

CudnnBatchNorm::~CudnnBatchNorm() {
  for (CudnnTensor const each : {pixels_, channels_}) {
    if (each != nullptr) cudnn_.tensor_destroy(each);
  }
}

// A call copies what the descriptors say, so that the next one may change them.
void CudnnBatchNorm::set_sizes(const Norm& norm) {
  require(cudnn_.tensor_set(pixels_, cudnn_channels_last, cudnn_bfloat16, norm.batch, norm.channels,
                            norm.pixels, 1),
          norm, "cudnnSetTensor4dDescriptor");
  require(cudnn_.tensor_set(channels_, cudnn_channels_last, cudnn_float, 1, norm.channels, 1, 1), norm,
          "cudnnSetTensor4dDescriptor");
}

void CudnnBatchNorm::require(CudnnStatus status, const Norm& norm, const char* call) const {
  if (status != 0) cudnn_.require(status, describe(call, norm));
}

void CudnnBatchNorm::check(CudnnStatus status, const Norm& norm, const char* call) const {
  require(status, norm, call);
  if (gpu_.checks()) gpu_.check(describe(call, norm));
}

// cuDNN adds a share of the batch's statistics to running ones, which are zero here. A share of all samples
// may be above 1 by its rounding.
void CudnnBatchNorm::normalize(const Norm& norm, float* batch_mean, float* batch_variance, double share) {
  const std::size_t bytes = static_cast<std::size_t>(norm.channels) * sizeof(float);
  gpu_.clear(batch_mean, bytes);
  gpu_.clear(batch_variance, bytes);
  set_sizes(norm);
  check(cudnn_.norm_forward(handle_, cudnn_spatial, &cudnn_one, &cudnn_zero, pixels_, norm.x, pixels_,
                            norm.out, channels_, norm.gain, norm.bias, std::min(share, 1.0), batch_mean,
                            batch_variance, batch_norm_epsilon, norm.mean, norm.rstd),
        norm, "cudnnBatchNormalizationForwardTraining");
  if (norm.rows() == 1) gpu_.clear(batch_variance, bytes);  // 0 / 0 for an unbiased variance
}

void CudnnBatchNorm::normalize_by(const Norm& norm, const float* mean, const float* variance) {
  set_sizes(norm);
  check(cudnn_.norm_inference(handle_, cudnn_spatial, &cudnn_one, &cudnn_zero, pixels_, norm.x, pixels_,
                              norm.out, channels_, norm.gain, norm.bias, mean, variance, batch_norm_epsilon),
        norm, "cudnnBatchNormalizationForwardInference");
}

void CudnnBatchNorm::backward(const Norm& norm, const bfloat16* g, bfloat16* d_x, float* d_gain,
                              float* d_bias) {
  set_sizes(norm);
  check(cudnn_.norm_backward(handle_, cudnn_spatial, &cudnn_one, &cudnn_zero, &cudnn_one, &cudnn_zero,
                             pixels_, norm.x, pixels_, g, pixels_, d_x, channels_, norm.gain, d_gain, d_bias,
                             batch_norm_epsilon, norm.mean, norm.rstd),
        norm, "cudnnBatchNormalizationBackward");
}

}  // namespace muster::compute::cuda
