// SPDX-License-Identifier: Apache-2.0
// How the benchmarks time operations on a GPU, and what they compare them with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "compute/arena.hpp"
#include "compute/cuda/cuda_compute.hpp"
#include "muster/philox.hpp"

/// What a GPU reaches at most, measured on it.
struct Peaks {
  double flops = 0;      ///< FLOP/s of bfloat16 products
  double bandwidth = 0;  ///< bytes/s that a copy within its memory reads and writes

  /// The least seconds for these products and for moving these bytes.
  double roofline_seconds(double operations, double bytes) const {
    return std::max(operations / flops, bytes / bandwidth);
  }
};

/// Bytes/s of a copy within the GPU's memory, read and written bytes together: the best of several. `bytes`:
/// of the copy; the caches of a real GPU hold less than 1 GiB.
double measure_bandwidth(muster::compute::cuda::CudaCompute& on, std::size_t bytes = std::size_t{1} << 30);

/// Of one run of `work`, which is run once before and then `runs` times.
double measure_seconds(muster::compute::cuda::CudaCompute& on, int runs, const std::function<void()>& work);

/// Fills memory with normal numbers, as a model has them: a GPU that multiplies zeros needs less power, and
/// power limits its clock. The numbers repeat after some millions.
template <typename Real>
void fill(muster::compute::Arena<Real>& to, std::size_t count, float deviation,
          muster::compute::cuda::CudaCompute& on) {
  std::vector<Real> numbers(std::min(count, std::size_t{4} << 20));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = Real(deviation * static_cast<float>(muster::normal(3, 0, i)));
  for (std::size_t at = 0; at < count; at += numbers.size())
    on.gpu().copy_in(to.data() + at, numbers.data(), std::min(numbers.size(), count - at) * sizeof(Real));
}
