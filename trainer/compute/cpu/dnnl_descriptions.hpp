// SPDX-License-Identifier: Apache-2.0
// Descriptions of oneDNN's convolutions, alike for oneDNN 2 and 3, whose constructors differ.
#pragma once

#include <dnnl.hpp>

namespace muster::compute::cpu {

/// Operands and geometry of a convolution; `bias` is empty without one.
struct DnnlConvolutionOperands {
  dnnl::memory::desc images, weight, bias, out;
  dnnl::memory::dims strides, padding;
};

inline dnnl::convolution_forward::primitive_desc describe_forward(const dnnl::engine& engine,
                                                                  const DnnlConvolutionOperands& o) {
  constexpr auto training = dnnl::prop_kind::forward_training;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, training, direct, o.images, o.weight, o.bias, o.out, o.strides, o.padding, o.padding};
#else
  return {dnnl::convolution_forward::desc(training, direct, o.images, o.weight, o.bias, o.out, o.strides,
                                          o.padding, o.padding),
          engine};
#endif
}

inline dnnl::convolution_backward_data::primitive_desc describe_backward_images(
    const dnnl::engine& engine, const DnnlConvolutionOperands& o,
    const dnnl::convolution_forward::primitive_desc& forward) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, direct, o.images, o.weight, o.out, o.strides, o.padding, o.padding, forward};
#else
  return {dnnl::convolution_backward_data::desc(direct, o.images, o.weight, o.out, o.strides, o.padding,
                                                o.padding),
          engine, forward};
#endif
}

inline dnnl::convolution_backward_weights::primitive_desc describe_backward_weight(
    const dnnl::engine& engine, const DnnlConvolutionOperands& o,
    const dnnl::convolution_forward::primitive_desc& forward) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, direct, o.images, o.weight, o.bias, o.out, o.strides, o.padding, o.padding, forward};
#else
  return {dnnl::convolution_backward_weights::desc(direct, o.images, o.weight, o.bias, o.out, o.strides,
                                                   o.padding, o.padding),
          engine, forward};
#endif
}

}  // namespace muster::compute::cpu
