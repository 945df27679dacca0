// SPDX-License-Identifier: Apache-2.0
// The memory of the test double of CUDA, which is the host's.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fake_cuda.hpp"
#include "late_gpu.hpp"

using fake_cuda::has_context;
using fake_cuda::host_waited;
using fake_cuda::variable;

namespace {

template <typename Work>
CUresult later(CUstream stream, Work work) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  late_gpu::enqueue(stream, work);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo(std::size_t* left, std::size_t* all) {
  *left = std::size_t{8} << 30;
  *all = std::size_t{9} << 30;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  *memory = std::malloc(bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  host_waited(late_gpu::finish_all(), "cuMemFreeHost");
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return later(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return later(stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}

CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (variable("FAKE_CUDA") == "no_memory" && bytes >= 1u << 20) return CUDA_ERROR_OUT_OF_MEMORY;
  // As the real one's, at a multiple of 256 bytes, and with whatever was there.
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(memory, 0xff, bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
  host_waited(late_gpu::finish_all(), "cuMemFree");
  std::free(reinterpret_cast<void*>(pointer));
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  late_gpu::enqueue(
      stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  fake_cuda::tell_enqueued("copy " + std::to_string(bytes), stream);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  host_waited(late_gpu::finish_all(), "cuMemsetD8");
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  host_waited(late_gpu::finish_all(), "cuMemcpyHtoD");
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  host_waited(late_gpu::finish_all(), "cuMemcpyDtoH");
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  late_gpu::enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}

}  // extern "C"
