// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <vector>

#include "muster/muster.hpp"
#include "one_gpu.hpp"

namespace one_gpu {

/// Elements in GPU memory, with their own stream.
template <typename T>
class OnGpu {
 public:
  explicit OnGpu(std::size_t count) : count_(count) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  explicit OnGpu(const std::vector<T>& values) : OnGpu(values.size()) {
    check(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream_));
  }
  ~OnGpu() {
    cudaFree(data_);
    cudaStreamDestroy(stream_);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  std::span<T> span() { return {data_, count_}; }
  std::span<const T> view() const { return {data_, count_}; }
  muster::Stream stream() const { return stream_; }
  std::vector<T> values(muster::Communicator& through) {
    through.synchronize(stream_);
    std::vector<T> copy(count_);
    check(cudaMemcpy(copy.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace one_gpu
