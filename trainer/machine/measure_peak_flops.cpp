// SPDX-License-Identifier: Apache-2.0
#include "machine/measure_peak_flops.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "compute/arena.hpp"

namespace muster {
namespace {

constexpr int smallest_product = 256, largest_product = 8192, grain = 128;
constexpr double seconds_in_all = 0.3, seconds_of_one = 0.0025;
/// However long the operands of a fast GPU's products took to make.
constexpr std::size_t least_products = 20;

/// FLOP/s of each product, until the time is over.
template <typename Real>
class SquareProducts {
 public:
  SquareProducts(compute::Compute<Real>& compute, int n)
      : compute_(compute),
        n_(n),
        a_(size(), compute.memory()),
        b_(size(), compute.memory()),
        c_(size(), compute.memory()) {
    // Numbers as a model has them: products of equal ones cost a GPU less power, and power is what bounds its
    // clock.
    std::vector<Real> numbers(size());
    std::uint32_t next = 1;
    for (Real& number : numbers) {
      next = next * 1664525u + 1013904223u;  // Numerical Recipes' generator
      number = Real(static_cast<float>(next >> 8) * 0x1p-24f - 0.5f);
    }
    for (compute::Arena<Real>* operand : {&a_, &b_})
      compute_.memory().copy_in(operand->data(), numbers.data(), numbers.size() * sizeof(Real));
    once();  // builds what the library keeps for this shape
  }
  double once() {
    const auto from = std::chrono::steady_clock::now();
    compute_.matmul({.m = n_, .n = n_, .k = n_}, a_.data(), b_.data(), nullptr, c_.data());
    compute_.wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    return 2.0 * n_ * n_ * n_ / std::max(took.count(), 1e-9);
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_); }
  compute::Compute<Real>& compute_;
  int n_;
  compute::Arena<Real> a_, b_, c_;
};

/// The size of a product that takes as long as one should.
int fitting(double rate) {
  const int n = static_cast<int>(std::cbrt(rate * seconds_of_one / 2)) / grain * grain;
  return std::clamp(n, smallest_product, largest_product);
}

}  // namespace

template <typename Real>
double measure_peak(compute::Compute<Real>& compute) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_in_all);
  // A small product says too little of a GPU.
  const int rough = fitting(SquareProducts(compute, smallest_product).once());
  const int size = rough > smallest_product ? fitting(SquareProducts(compute, rough).once()) : rough;
  SquareProducts products(compute, size);
  std::vector<double> rates;
  do {
    rates.push_back(products.once());
  } while (rates.size() < least_products || std::chrono::steady_clock::now() < until);
  const auto high = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() * 9 / 10);
  std::nth_element(rates.begin(), high, rates.end());
  return *high;
}

template double measure_peak(compute::Compute<float>&);
template double measure_peak(compute::Compute<bfloat16>&);

}  // namespace muster
