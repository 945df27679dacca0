// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/upcast_convolution.hpp"

#include <algorithm>

#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {
namespace {

constexpr std::size_t grain = 64;  // a cache line or more

std::size_t image_elements(const ConvolutionShape& s) {
  return static_cast<std::size_t>(s.batch) * s.in_pixels() * static_cast<std::size_t>(s.in);
}
std::size_t out_elements(const ConvolutionShape& s) {
  return static_cast<std::size_t>(s.batch) * s.out_pixels() * static_cast<std::size_t>(s.out);
}

float* sized(std::vector<float>& values, std::size_t count) {
  values.resize(std::max(values.size(), count));
  return values.data();
}

}  // namespace

const float* UpcastConvolution::widen(const bfloat16* from, std::size_t count, std::vector<float>& to) const {
  if (from == nullptr) return nullptr;
  float* const values = sized(to, count);
  parallel_for(threads_, count, grain, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] = static_cast<float>(from[i]);
  });
  return values;
}

void UpcastConvolution::round(const std::vector<float>& from, std::size_t count, bfloat16* to) const {
  parallel_for(threads_, count, grain, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = bfloat16(from[i]);
  });
}

void UpcastConvolution::forward(const ConvolutionShape& s, const bfloat16* images, const bfloat16* weight,
                                const bfloat16* bias, bfloat16* out) {
  const std::size_t count = out_elements(s);
  convolution_->forward(s, widen(images, image_elements(s), images_), widen(weight, s.weights(), weight_),
                        widen(bias, static_cast<std::size_t>(s.out), bias_), sized(out_, count));
  round(out_, count, out);
}

void UpcastConvolution::backward_images(const ConvolutionShape& s, const bfloat16* d_out,
                                        const bfloat16* weight, bfloat16* d_images) {
  const std::size_t count = image_elements(s);
  convolution_->backward_images(s, widen(d_out, out_elements(s), out_), widen(weight, s.weights(), weight_),
                                sized(images_, count));
  round(images_, count, d_images);
}

void UpcastConvolution::backward_weight(const ConvolutionShape& s, const bfloat16* images,
                                        const bfloat16* d_out, float* d_weight, float* d_bias) {
  convolution_->backward_weight(s, widen(images, image_elements(s), images_),
                                widen(d_out, out_elements(s), out_), d_weight, d_bias);
}

}  // namespace muster::compute::cpu
