// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compute/arena.hpp"
#include "compute/cuda/cudnn_library.hpp"
#include "compute/cuda/gpu.hpp"
#include "compute/image_compute.hpp"

namespace muster::compute::cuda {

/// Convolutions by cuDNN, in bfloat16 with float sums, of images and weights whose channels come last:
/// weights are [out, window, window, in / groups]. Descriptors are made and algorithms chosen once per shape:
/// the first deterministic one that cuDNN's heuristic proposes. Not thread-safe.
/// @throws Error(ErrorCode::device) with the call, the convolution and cuDNN's reason.
class CudnnConvolution {
 public:
  /// `handle` computes on the GPU's stream and outlives this object, as `cudnn` and `gpu` do.
  CudnnConvolution(Gpu& gpu, const CudnnLibrary& cudnn, CudnnHandle handle);
  ~CudnnConvolution();
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;

  void forward(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* weight, bfloat16* out);
  /// Overwrites d_images.
  void backward_images(const ConvolutionShape& shape, const bfloat16* d_out, const bfloat16* weight,
                       bfloat16* d_images);
  /// Overwrites d_weight.
  void backward_weight(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* d_out,
                       bfloat16* d_weight);

 private:
  struct Plan;
  struct Pass;
  Plan& find_plan(const ConvolutionShape& shape);
  /// Chooses the algorithm when the pass is new, and prepares its workspace and type of arithmetic.
  /// find(most, their number, algorithms) asks cuDNN for them.
  template <typename Find>
  void prepare(Plan& plan, Pass& pass, const Find& find);
  /// Fails if the call failed, and with MUSTER_CUDA_CHECK=1 if its work does.
  void check(CudnnStatus status, const Plan& plan, const Pass& pass) const;

  Gpu& gpu_;
  const CudnnLibrary& cudnn_;
  CudnnHandle handle_;
  Arena<std::byte> workspace_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace muster::compute::cuda
