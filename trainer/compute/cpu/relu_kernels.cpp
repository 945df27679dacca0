// SPDX-License-Identifier: Apache-2.0
// ReLU of one image; compiled once per instruction set (see kernels.hpp).
#include "compute/cpu/channel_vector.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

/// Calls f(element, lanes, factors) for all of [pixels, channels], a vector at a time. Without factors the
/// pixels count as one.
template <typename Real, typename F>
inline void for_each_vector(int pixels, int channels, const Real* factor, F&& f) {
  using Sum = Accurate<Real>;
  const std::ptrdiff_t size = std::ptrdiff_t{pixels} * channels;
  ChannelVector<Sum> factors = ChannelVector<Sum>{} + Sum(1);
  if (factor == nullptr) {
    for (std::ptrdiff_t at = 0; at < size; at += channel_lanes<Sum>)
      f(at, whole_lanes<Sum>(static_cast<int>(size - at), at, size), factors);
    return;
  }
  for (int pixel = 0; pixel < pixels; ++pixel) {
    for (int first = 0; first < channels; first += channel_lanes<Sum>) {
      const int count = block_lanes<Sum>(channels, first);
      const std::ptrdiff_t at = std::ptrdiff_t{pixel} * channels + first;
      load(factors, factor + first, count);
      f(at, whole_lanes<Sum>(count, at, size), factors);
    }
  }
}

template <typename Real>
void relu(int pixels, int channels, const Real* x, const Real* factor, Real* out) {
  using Sum = Accurate<Real>;
  for_each_vector(pixels, channels, factor,
                  [&](std::ptrdiff_t at, int lanes, const ChannelVector<Sum>& factors) {
                    ChannelVector<Sum> value;
                    load(value, x + at, lanes);
                    value *= factors;
                    store(out + at, value < Sum(0) ? ChannelVector<Sum>{} : value, lanes);
                  });
}

template <typename Real>
void relu_backward(int pixels, int channels, const Real* out, const Real* factor, const Real* d_out,
                   Real* d_x) {
  using Sum = Accurate<Real>;
  for_each_vector(pixels, channels, factor,
                  [&](std::ptrdiff_t at, int lanes, const ChannelVector<Sum>& factors) {
                    ChannelVector<Sum> value, d;
                    load(value, out + at, lanes);
                    load(d, d_out + at, lanes);
                    store(d_x + at, value > Sum(0) ? d * factors : ChannelVector<Sum>{}, lanes);
                  });
}

template <typename Real>
constexpr muster::compute::cpu::ReluKernels<Real> relu_table{relu<Real>, relu_backward<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const ReluKernels<float> float_relu = relu_table<float>;
const ReluKernels<double> double_relu = relu_table<double>;
const ReluKernels<bfloat16> bfloat16_relu = relu_table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
