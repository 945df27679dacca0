// SPDX-License-Identifier: Apache-2.0
// The fake CUDA's memory, which is host memory. Calls without a stream use the default stream: they wait for
// it alone, and a memset does not wait (CUDA Driver API, "API synchronization behavior").
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "fake_cuda.hpp"
#include "stream_queues.hpp"

using fake_cuda::get_env;
using fake_cuda::has_context;
using fake_cuda::log_host_wait;

namespace {

std::mutex registered_mutex;
std::set<void*> registered;  // host memory

template <typename Work>
CUresult enqueue_work(CUstream stream, Work work) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  stream_queues::enqueue(stream, work);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo(std::size_t* left, std::size_t* all) {
  auto const mebibytes = get_env("FAKE_CUDA_FREE_MIB");
  *left = (mebibytes.empty() ? std::size_t{8 << 10} : std::stoull(mebibytes)) << 20;
  *all = std::size_t{9} << 30;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);  // the real one gives whole pages
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  log_host_wait(stream_queues::finish_all(), "cuMemFreeHost");
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* memory, std::size_t, unsigned) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard const lock(registered_mutex);
  return registered.insert(memory).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* memory) {
  std::lock_guard const lock(registered_mutex);
  return registered.erase(memory) == 1 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return enqueue_work(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return enqueue_work(stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}

CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (get_env("FAKE_CUDA") == "no_memory" && bytes >= 1u << 20) return CUDA_ERROR_OUT_OF_MEMORY;
  // Like the real one: aligned to 256 bytes, and not zeroed.
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(memory, 0xff, bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
  log_host_wait(stream_queues::finish_all(), "cuMemFree");
  std::free(reinterpret_cast<void*>(pointer));
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  stream_queues::enqueue(
      stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  fake_cuda::log_enqueued("copy " + std::to_string(bytes), stream);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  return enqueue_work(nullptr, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  CUresult const result = cuMemcpyHtoDAsync(to, from, bytes, nullptr);
  if (result == CUDA_SUCCESS) log_host_wait(stream_queues::finish_stream(nullptr), "cuMemcpyHtoD");
  return result;
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  CUresult const result = cuMemcpyDtoHAsync(to, from, bytes, nullptr);
  if (result == CUDA_SUCCESS) log_host_wait(stream_queues::finish_stream(nullptr), "cuMemcpyDtoH");
  return result;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  stream_queues::enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}

}  // extern "C"
