// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/arena.hpp"
#include "compute/cuda/cudnn_batch_norm.hpp"
#include "compute/image_compute.hpp"

namespace muster::compute::cuda {

class CudaCompute;

/// Batch normalization with the statistics of all ranks, by BatchNorm::all_reduce, without addend and ReLU.
/// cuDNN computes statistics and normalizes in one call, so own kernels form the sums and the gradient; cuDNN
/// normalizes by the ranks' statistics. Both arguments of the constructor must outlive it. Calls enqueue
/// their work and return, except when they need more scratch memory than before. No sum depends on the GPU.
/// @throws Error(ErrorCode::device) with CUDA's or cuDNN's reason, and what BatchNorm::all_reduce throws.
class SyncBatchNorm {
 public:
  using Norm = BatchNorm<bfloat16>;
  SyncBatchNorm(CudaCompute& compute, CudnnBatchNorm& batch_norm)
      : compute_(compute), batch_norm_(batch_norm) {}

  /// As ImageCompute::normalize().
  void normalize(const Norm& norm, float* batch_mean, float* batch_variance, double share);
  /// g is the gradient of the result, and other memory than d_x. d_gain and d_bias are this rank's own part.
  void backward(const Norm& norm, const bfloat16* g, bfloat16* d_x, float* d_gain, float* d_bias);

 private:
  double* partial(const Norm& norm);
  double* sums(const Norm& norm);

  CudaCompute& compute_;
  CudnnBatchNorm& batch_norm_;
  Arena<double> partial_, sums_;
  Arena<float> variance_;
};

}  // namespace muster::compute::cuda
