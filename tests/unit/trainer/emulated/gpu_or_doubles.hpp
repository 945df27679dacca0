// SPDX-License-Identifier: Apache-2.0
// The GPU that a test of CudaCompute computes on: in unit tests the doubles of CUDA and cuBLASLt, in
// tests/gpu the real ones.
#pragma once

#include <cstdlib>
#include <vector>

#include "compute/cuda/cuda_compute.hpp"

struct OnDoubles {
#ifdef FAKE_CUDA_FILE
  static constexpr bool doubles = true;
  explicit OnDoubles(const char* cublas = "", const char* cuda = "") {
    setenv("MUSTER_CUDA_LIBRARY", FAKE_CUDA_FILE, 1);
    setenv("MUSTER_CUBLASLT_LIBRARY", FAKE_CUBLASLT_FILE, 1);
    setenv("FAKE_CUBLASLT", cublas, 1);
    setenv("FAKE_CUDA", cuda, 1);
  }
  ~OnDoubles() {
    for (const char* name : {"MUSTER_CUDA_LIBRARY", "MUSTER_CUBLASLT_LIBRARY", "FAKE_CUBLASLT", "FAKE_CUDA"})
      unsetenv(name);
  }
#else
  static constexpr bool doubles = false;
  explicit OnDoubles(const char* = "", const char* = "") {}
#endif
  OnDoubles(const OnDoubles&) = delete;
  OnDoubles& operator=(const OnDoubles&) = delete;
};

/// Numbers in a compute's memory.
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
