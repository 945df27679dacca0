// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "compute/arena.hpp"
#include "compute/cuda/cudnn_batch_norm.hpp"
#include "compute/cuda/cudnn_convolution.hpp"
#include "compute/cuda/cudnn_library.hpp"
#include "compute/cuda/gpu.hpp"
#include "compute/cuda/staging.hpp"
#include "compute/cuda/sync_batch_norm.hpp"
#include "compute/image_compute.hpp"

namespace muster::compute::cuda {

class CudaCompute;

/// The operations of networks on images on the GPU of a CudaCompute, which must outlive it: convolutions and
/// batch normalization by cuDNN, the rest by own kernels. As its other calls, these enqueue their work and
/// return; send() waits until the call before the last has copied its array. cuDNN rounds the gradients of
/// convolutions' weights to bfloat16. Arrays' memory goes on to a multiple of 16 bytes.
/// @throws Error(ErrorCode::device) with cuDNN's reason.
class CudaImageCompute final : public ImageCompute<bfloat16> {
 public:
  explicit CudaImageCompute(CudaCompute& compute);

  std::string version() const { return cudnn_.version(); }

  void convolve(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* weight,
                const bfloat16* bias, bfloat16* out) override;
  void convolve_backward_images(const ConvolutionShape& shape, const bfloat16* d_out, const bfloat16* weight,
                                bfloat16* d_images) override;
  void convolve_backward_weight(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* d_out,
                                float* d_weight, float* d_bias) override;
  void normalize(const BatchNorm<bfloat16>& norm, float* batch_mean, float* batch_variance,
                 double share) override;
  void normalize_by(const BatchNorm<bfloat16>& norm, const float* mean, const float* variance) override;
  void normalize_backward(const BatchNorm<bfloat16>& norm, bfloat16* d_out, const bfloat16* d_also,
                          bfloat16* d_x, float* d_gain, float* d_bias) override;
  void max_pool(const PoolShape& shape, const bfloat16* images, bfloat16* out, std::uint8_t* places) override;
  void max_pool_backward(const PoolShape& shape, const std::uint8_t* places, const bfloat16* d_out,
                         bfloat16* d_images) override;
  void relu(int batch, std::size_t pixels, int channels, const bfloat16* x, const bfloat16* factor,
            bfloat16* out) override;
  void relu_backward(int batch, std::size_t pixels, int channels, const bfloat16* out, const bfloat16* factor,
                     const bfloat16* d_out, bfloat16* d_x) override;
  void flatten(int batch, std::size_t pixels, int channels, const bfloat16* from, bool back,
               bfloat16* to) override;
  void mean_pool(int batch, std::size_t pixels, int channels, const bfloat16* images, bfloat16* out) override;
  void mean_pool_backward(int batch, std::size_t pixels, int channels, const bfloat16* d_out,
                          bfloat16* d_images) override;
  void shortcut(int batch, int height, int width, int channels, int out_channels, const bfloat16* images,
                bfloat16* out) override;
  void shortcut_backward(int batch, int height, int width, int channels, int out_channels,
                         const bfloat16* d_out, bfloat16* d_images) override;
  void add(const bfloat16* from, bfloat16* to, std::size_t count) override;
  std::int64_t count_correct(const bfloat16* logits, const Token* targets, int rows, int classes) override;
  void compute_cross_entropy(bfloat16* logits, const Token* targets, int rows, int classes,
                             float gradient_scale) override;
  const bfloat16* send(const bfloat16* host, std::size_t count, std::size_t most) override;

 private:
  /// Launches a kernel whose threads each compute elements, `each` at a time, of `count`.
  template <typename... Arguments>
  void launch(Kernel kernel, std::size_t each, std::size_t count, Arguments... arguments);
  /// [out, in, window, window] as cuDNN reads it: the channels last.
  const bfloat16* to_channels_last(const ConvolutionShape& shape, const bfloat16* weight);
  void finish(const BatchNorm<bfloat16>& norm);

  struct Handle {
    Handle(const CudnnLibrary& library, CUstream stream);
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    const CudnnLibrary& cudnn;
    CudnnHandle value = nullptr;
  };

  CudaCompute& compute_;
  Gpu& gpu_;
  CudnnLibrary cudnn_;
  Handle handle_;
  CudnnConvolution convolution_;
  CudnnBatchNorm batch_norm_;
  SyncBatchNorm sync_batch_norm_;
  Staging inputs_, targets_;
  Arena<bfloat16> weight_;  ///< or its gradient, the channels last
  Arena<bfloat16> logits_;  ///< with padding
  Arena<double> correct_;
};

}  // namespace muster::compute::cuda
