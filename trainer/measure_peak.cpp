// SPDX-License-Identifier: Apache-2.0
#include "measure_peak.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace muster {
namespace {

constexpr int smallest_product = 256, largest_product = 2048, grain = 128;
constexpr double seconds_in_all = 0.1, seconds_of_one = 0.008;

/// FLOP/s of each product, until the time is over.
template <typename Real>
class Products {
 public:
  Products(compute::Compute<Real>& compute, int n)
      : compute_(compute), n_(n), a_(size(), Real(0.5f)), b_(size(), Real(0.25f)), c_(size()) {
    once();  // builds what the library keeps for this shape
  }
  double once() {
    const auto from = std::chrono::steady_clock::now();
    compute_.matmul({.m = n_, .n = n_, .k = n_}, a_.data(), b_.data(), nullptr, c_.data());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    return 2.0 * n_ * n_ * n_ / std::max(took.count(), 1e-9);
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_); }
  compute::Compute<Real>& compute_;
  int n_;
  std::vector<Real> a_, b_, c_;
};

}  // namespace

template <typename Real>
double measure_peak(compute::Compute<Real>& compute) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_in_all);
  const double rough = Products(compute, smallest_product).once();
  const int fitting = static_cast<int>(std::cbrt(rough * seconds_of_one / 2)) / grain * grain;
  Products products(compute, std::clamp(fitting, smallest_product, largest_product));
  std::vector<double> rates;
  do {
    rates.push_back(products.once());
  } while (std::chrono::steady_clock::now() < until);
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

template double measure_peak(compute::Compute<float>&);
template double measure_peak(compute::Compute<bfloat16>&);

}  // namespace muster
