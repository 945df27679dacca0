// SPDX-License-Identifier: Apache-2.0
// The GPU of CudaCompute's tests: the fake CUDA, cuBLASLt and cuDNN in unit tests, the real ones in
// tests/gpu.
#pragma once

#include <cstdlib>
#include <vector>

#include "compute/cuda/cuda_compute.hpp"

struct TestGpu {
#ifdef FAKE_CUDA_FILE
  static constexpr bool is_fake = true;
  explicit TestGpu(const char* cublas = "", const char* cuda = "") {
    setenv("MUSTER_CUDA_LIBRARY", FAKE_CUDA_FILE, 1);
    setenv("MUSTER_CUBLASLT_LIBRARY", FAKE_CUBLASLT_FILE, 1);
    setenv("MUSTER_CUDNN_LIBRARY", FAKE_CUDNN_FILE, 1);
    setenv("FAKE_CUBLASLT", cublas, 1);
    setenv("FAKE_CUDA", cuda, 1);
  }
  ~TestGpu() {
    for (const char* name : {"MUSTER_CUDA_LIBRARY", "MUSTER_CUBLASLT_LIBRARY", "MUSTER_CUDNN_LIBRARY",
                             "FAKE_CUBLASLT", "FAKE_CUDA"})
      unsetenv(name);
  }
#else
  static constexpr bool is_fake = false;
  explicit TestGpu(const char* = "", const char* = "") {}
#endif
  TestGpu(const TestGpu&) = delete;
  TestGpu& operator=(const TestGpu&) = delete;
};

/// An array in a device's memory.
template <typename Number>
class OnDevice {
 public:
  OnDevice(muster::compute::Memory& memory, std::size_t count) : memory_(memory), numbers_(count, memory) {}
  OnDevice(muster::compute::Memory& memory, const std::vector<Number>& values)
      : OnDevice(memory, values.size()) {
    memory_.copy_in(numbers_.data(), values.data(), values.size() * sizeof(Number));
  }
  Number* data() { return numbers_.data(); }
  std::size_t size() const { return numbers_.size(); }
  std::vector<Number> values() {
    std::vector<Number> out(numbers_.size());
    memory_.copy_out(out.data(), numbers_.data(), out.size() * sizeof(Number));
    return out;
  }

 private:
  muster::compute::Memory& memory_;
  muster::compute::Arena<Number> numbers_;
};
