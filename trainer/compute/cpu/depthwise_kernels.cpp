// SPDX-License-Identifier: Apache-2.0
// The weights' gradient of a depthwise convolution; compiled once per instruction set (see kernels.hpp).
#include "compute/cpu/channel_vector.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

using muster::compute::ConvolutionShape;

constexpr int depthwise_window = 3;

template <typename Real>
void depthwise_weight(const ConvolutionShape& s, const Real* image, const Real* d_out, int images,
                      Accurate<Real>* sums) {
  using Sum = Accurate<Real>;
  // Not the members of ConvolutionShape, which the linker could take from another instruction set's object.
  const int channels = s.in, out_height = (s.height + 2 * s.padding - depthwise_window) / s.stride + 1,
            out_width = (s.width + 2 * s.padding - depthwise_window) / s.stride + 1;
  for (int first = 0; first < channels; first += channel_lanes<Sum>) {
    const int count = block_lanes<Sum>(channels, first);
    ChannelVector<Sum> total[depthwise_window * depthwise_window] = {}, d, value;
    const Real* d_at = d_out + first;
    for (int number = 0; number < images; ++number) {
      const Real* from = image + std::ptrdiff_t{number} * s.height * s.width * channels + first;
      for (int y = 0; y < out_height; ++y) {
        for (int x = 0; x < out_width; ++x, d_at += channels) {
          load(d, d_at, count);
          for (int row = 0; row < depthwise_window; ++row) {
            const int in_y = y * s.stride + row - s.padding;
            if (in_y < 0 || in_y >= s.height) continue;
            for (int column = 0; column < depthwise_window; ++column) {
              const int in_x = x * s.stride + column - s.padding;
              if (in_x < 0 || in_x >= s.width) continue;
              load(value, from + (std::ptrdiff_t{in_y} * s.width + in_x) * channels, count);
              total[row * depthwise_window + column] += d * value;
            }
          }
        }
      }
    }
    for (int place = 0; place < depthwise_window * depthwise_window; ++place)
      store(sums + std::ptrdiff_t{place} * channels + first, total[place], count);
  }
}

template <typename Real>
constexpr muster::compute::cpu::DepthwiseKernels<Real> depthwise_table{depthwise_weight<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const DepthwiseKernels<float> float_depthwise = depthwise_table<float>;
const DepthwiseKernels<double> double_depthwise = depthwise_table<double>;
const DepthwiseKernels<bfloat16> bfloat16_depthwise = depthwise_table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
