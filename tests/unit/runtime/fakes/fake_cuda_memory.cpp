// SPDX-License-Identifier: Apache-2.0
// The fake CUDA's memory, which is host memory. Calls without a stream use the default stream: they wait for
// it alone, and a memset does not wait (CUDA Driver API, "API synchronization behavior"). A program that
// changes or unregisters host memory while a copy from it is in flight is aborted, also where later copies
// would hide it.
#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_cuda.hpp"
#include "stream_queues.hpp"

using fake_cuda::get_env;
using fake_cuda::has_context;
using fake_cuda::log_host_wait;

namespace {

std::mutex host_mutex;
auto& registered = *new std::map<void*, std::size_t>;  // host memory and its bytes
auto& in_flight = *new std::multiset<const void*>;     // sources of copies

[[noreturn]] void abort_program(const char* why) {
  std::fprintf(stderr, "fake CUDA: %s\n", why);
  std::abort();
}

/// A copy from host memory that a stream will make.
class CopyFromHost {
 public:
  CopyFromHost(void* to, const void* from, std::size_t bytes)
      : to_(to), from_(static_cast<const char*>(from)), before_(from_, from_ + bytes) {
    std::lock_guard const lock(host_mutex);
    place_ = in_flight.insert(from);
  }
  ~CopyFromHost() {
    std::lock_guard const lock(host_mutex);
    in_flight.erase(place_);
  }
  CopyFromHost(const CopyFromHost&) = delete;
  CopyFromHost& operator=(const CopyFromHost&) = delete;
  void run() {
    if (!before_.empty() && std::memcmp(from_, before_.data(), before_.size()) != 0)
      abort_program("host memory has changed before a copy from it was done");
    std::memcpy(to_, from_, before_.size());
  }

 private:
  void* to_;
  const char* from_;
  std::vector<char> before_;
  std::multiset<const void*>::iterator place_;
};

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

CUresult cuMemHostRegister(void* memory, std::size_t bytes, unsigned) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard const lock(host_mutex);
  return registered.emplace(memory, bytes).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* memory) {
  std::lock_guard const lock(host_mutex);
  auto const found = registered.find(memory);
  if (found == registered.end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  auto const copy = in_flight.lower_bound(memory);
  if (copy != in_flight.end() && *copy < static_cast<char*>(memory) + found->second)
    abort_program("host memory is unregistered while a copy from it is in flight");
  registered.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  auto const copy = std::make_shared<CopyFromHost>(reinterpret_cast<void*>(to), from, bytes);
  return enqueue_work(stream, [copy] { copy->run(); });
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
