// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "compute/cpu/convolution.hpp"

namespace muster::compute::cpu {

/// Convolutions of bfloat16 images as float32 ones, for processors on which oneDNN has fast kernels for
/// float32 only. Results are rounded once.
class UpcastConvolution final : public Convolution<bfloat16> {
 public:
  UpcastConvolution(std::unique_ptr<Convolution<float>> convolution, int threads)
      : convolution_(std::move(convolution)), threads_(threads) {}

  void forward(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* weight,
               const bfloat16* bias, bfloat16* out) override;
  void backward_images(const ConvolutionShape& shape, const bfloat16* d_out, const bfloat16* weight,
                       bfloat16* d_images) override;
  void backward_weight(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* d_out,
                       float* d_weight, float* d_bias) override;

 private:
  const float* widen(const bfloat16* from, std::size_t count, std::vector<float>& to) const;
  void round(const std::vector<float>& from, std::size_t count, bfloat16* to) const;

  std::unique_ptr<Convolution<float>> convolution_;
  int threads_;
  std::vector<float> images_, weight_, bias_, out_;
};

}  // namespace muster::compute::cpu
