// SPDX-License-Identifier: Apache-2.0
// Batch normalization over rows of channels; compiled once per instruction set (see kernels.hpp). A
// vector of channels stays in registers while the rows pass.
#include "compute/cpu/channel_vector.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

template <typename Real>
void moments(const Real* x, Accurate<Real>* mean, Accurate<Real>* squares, std::ptrdiff_t begin,
             std::ptrdiff_t end, int channels) {
  using Sum = Accurate<Real>;
  for (int first = 0; first < channels; first += channel_lanes<Sum>) {
    const int count = block_lanes<Sum>(channels, first);
    ChannelVector<Sum> value, total{}, rest{}, spread{};
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      load(value, x + row * channels + first, count);
      total += value;
    }
    const ChannelVector<Sum> middle = total / Sum(end - begin);
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      load(value, x + row * channels + first, count);
      rest += value - middle;
      spread += (value - middle) * (value - middle);
    }
    // What rounding has left out of the mean.
    rest /= Sum(end - begin);
    store(mean + first, middle + rest, count);
    store(squares + first, spread - rest * rest * Sum(end - begin), count);
  }
}

template <typename Real>
void scale_and_shift(const Real* x, const Accurate<Real>* scale, const Accurate<Real>* shift,
                     const Real* addend, bool relu, Real* out, std::ptrdiff_t begin, std::ptrdiff_t end,
                     int channels) {
  using Sum = Accurate<Real>;
  for (int first = 0; first < channels; first += channel_lanes<Sum>) {
    const int count = block_lanes<Sum>(channels, first);
    ChannelVector<Sum> by, plus, value, other{};
    load(by, scale + first, count);
    load(plus, shift + first, count);
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      const std::ptrdiff_t at = row * channels + first;
      load(value, x + at, count);
      value = value * by + plus;
      if (addend) {
        load(other, addend + at, count);
        value += other;
      }
      if (relu) value = value < Sum(0) ? ChannelVector<Sum>{} : value;
      store(out + at, value, count);
    }
  }
}

template <typename Real>
void gradient_sums(const Real* x, const Accurate<Real>* mean, const Real* out, Real* d_out,
                   const Real* d_also, Accurate<Real>* sum, Accurate<Real>* dot, std::ptrdiff_t begin,
                   std::ptrdiff_t end, int channels) {
  using Sum = Accurate<Real>;
  for (int first = 0; first < channels; first += channel_lanes<Sum>) {
    const int count = block_lanes<Sum>(channels, first);
    ChannelVector<Sum> middle, value, gradient, other, total{}, product{};
    load(middle, mean + first, count);
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      const std::ptrdiff_t at = row * channels + first;
      load(gradient, d_out + at, count);
      if (d_also) {
        load(other, d_also + at, count);
        gradient += other;
      }
      if (out) {
        load(other, out + at, count);
        gradient = other > Sum(0) ? gradient : ChannelVector<Sum>{};
      }
      if (out || d_also) store(d_out + at, gradient, count);
      load(value, x + at, count);
      total += gradient;
      product += gradient * (value - middle);
    }
    store(sum + first, total, count);
    store(dot + first, product, count);
  }
}

template <typename Real>
void gradient(const Real* x, const Real* g, const Accurate<Real>* mean, const Accurate<Real>* by_g,
              const Accurate<Real>* by_x, const Accurate<Real>* constant, Real* d_x, std::ptrdiff_t begin,
              std::ptrdiff_t end, int channels) {
  using Sum = Accurate<Real>;
  for (int first = 0; first < channels; first += channel_lanes<Sum>) {
    const int count = block_lanes<Sum>(channels, first);
    ChannelVector<Sum> middle, from_g, from_x, plus, value, d;
    load(middle, mean + first, count);
    load(from_g, by_g + first, count);
    load(from_x, by_x + first, count);
    load(plus, constant + first, count);
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      const std::ptrdiff_t at = row * channels + first;
      load(value, x + at, count);
      load(d, g + at, count);
      d = from_g * d + (from_x * (value - middle) + plus);
      store(d_x + at, d, count);
    }
  }
}

template <typename Real>
constexpr muster::compute::cpu::BatchNormKernels<Real> norm_table{moments<Real>, scale_and_shift<Real>,
                                                                  gradient_sums<Real>, gradient<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const BatchNormKernels<float> float_batch_norm = norm_table<float>;
const BatchNormKernels<double> double_batch_norm = norm_table<double>;
const BatchNormKernels<bfloat16> bfloat16_batch_norm = norm_table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
