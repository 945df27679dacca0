// SPDX-License-Identifier: Apache-2.0
#include "gpu_timing.hpp"

#include <chrono>

using muster::compute::Arena;
using muster::compute::cuda::CudaCompute;

double measure_seconds(CudaCompute& on, int runs, const std::function<void()>& work) {
  work();
  on.wait();
  const auto from = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) work();
  on.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count() / runs;
}

double measure_bandwidth(CudaCompute& on, std::size_t bytes) {
  Arena<float> from(bytes / sizeof(float), on.gpu()), to(bytes / sizeof(float), on.gpu());
  fill(from, bytes / sizeof(float), 1, on);
  const auto& driver = on.gpu().driver();
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double seconds = measure_seconds(on, 4, [&] {
      driver.require(driver.memcpy_on_device(reinterpret_cast<CUdeviceptr>(to.data()),
                                             reinterpret_cast<CUdeviceptr>(from.data()), bytes, on.stream()),
                     "a copy");
    });
    best = std::max(best, 2.0 * static_cast<double>(bytes) / seconds);
  }
  return best;
}
