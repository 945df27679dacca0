// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "compute/cuda/cudnn_library.hpp"
#include "compute/cuda/gpu.hpp"
#include "compute/image_compute.hpp"

namespace muster::compute::cuda {

/// Batch normalization by cuDNN, in bfloat16 with float statistics, without addend and ReLU. Not thread-safe.
/// @throws Error(ErrorCode::device) with the call, the sizes and cuDNN's reason.
class CudnnBatchNorm {
 public:
  using Norm = BatchNorm<bfloat16>;
  /// `handle` computes on the GPU's stream and outlives this object, as `cudnn` and `gpu` do.
  CudnnBatchNorm(Gpu& gpu, const CudnnLibrary& cudnn, CudnnHandle handle);
  ~CudnnBatchNorm();
  CudnnBatchNorm(const CudnnBatchNorm&) = delete;
  CudnnBatchNorm& operator=(const CudnnBatchNorm&) = delete;

  /// As ImageCompute::normalize().
  void normalize(const Norm& norm, float* batch_mean, float* batch_variance, double share);
  void normalize_by(const Norm& norm, const float* mean, const float* variance);
  /// d_x from `g`, the gradient of norm.out. d_x is not g.
  void backward(const Norm& norm, const bfloat16* g, bfloat16* d_x, float* d_gain, float* d_bias);

 private:
  void set_sizes(const Norm& norm);
  /// Fails if the call failed.
  void require(CudnnStatus status, const Norm& norm, const char* call) const;
  /// Fails if the call failed, and with MUSTER_CUDA_CHECK=1 if its work does.
  void check(CudnnStatus status, const Norm& norm, const char* call) const;

  Gpu& gpu_;
  const CudnnLibrary& cudnn_;
  CudnnHandle handle_;
  CudnnTensor pixels_ = nullptr, channels_ = nullptr;
};

}  // namespace muster::compute::cuda
