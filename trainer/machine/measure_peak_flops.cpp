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

constexpr int min_size = 256, max_size = 8192, size_step = 128;
constexpr double total_seconds = 0.3, seconds_per_product = 0.0025;
/// At least so many products, even when preparing a fast GPU's operands took all the time.
constexpr std::size_t min_products = 20;

/// Measures FLOP/s of square matrix products of one size.
template <typename Real>
class SquareProducts {
 public:
  SquareProducts(compute::Compute<Real>& compute, int n)
      : compute_(compute),
        n_(n),
        a_(size(), compute.memory()),
        b_(size(), compute.memory()),
        c_(size(), compute.memory()) {
    // Random values, as in a model: products of equal values need less power on a GPU, and power limits its
    // clock.
    std::vector<Real> numbers(size());
    std::uint32_t next = 1;
    for (Real& number : numbers) {
      next = next * 1664525u + 1013904223u;  // Numerical Recipes' generator
      number = Real(static_cast<float>(next >> 8) * 0x1p-24f - 0.5f);
    }
    for (compute::Arena<Real>* operand : {&a_, &b_})
      compute_.memory().copy_in(operand->data(), numbers.data(), numbers.size() * sizeof(Real));
    measure_once();  // lets the library build what it caches for this shape
  }
  double measure_once() {
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

/// The product size that takes seconds_per_product at this rate.
int product_size(double rate) {
  const int n = static_cast<int>(std::cbrt(rate * seconds_per_product / 2)) / size_step * size_step;
  return std::clamp(n, min_size, max_size);
}

}  // namespace

template <typename Real>
double measure_peak_flops(compute::Compute<Real>& compute) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(total_seconds);
  // A small product does not reach a GPU's rate, so measure again with a larger one.
  const int rough = product_size(SquareProducts(compute, min_size).measure_once());
  const int size = rough > min_size ? product_size(SquareProducts(compute, rough).measure_once()) : rough;
  SquareProducts products(compute, size);
  std::vector<double> rates;
  do {
    rates.push_back(products.measure_once());
  } while (rates.size() < min_products || std::chrono::steady_clock::now() < until);
  const auto high = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() * 9 / 10);
  std::nth_element(rates.begin(), high, rates.end());
  return *high;
}

template double measure_peak_flops(compute::Compute<float>&);
template double measure_peak_flops(compute::Compute<bfloat16>&);

}  // namespace muster
