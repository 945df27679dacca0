// SPDX-License-Identifier: Apache-2.0
#include "bench/memory.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "muster/error.hpp"
#include "shared_object.hpp"

namespace muster::cli::bench {
namespace {

class HostMemory : public Memory {
 public:
  explicit HostMemory(std::size_t bytes) : bytes_(bytes) {}
  void* data() override { return bytes_.data(); }
  void write(const void* from, std::size_t bytes) override { std::memcpy(bytes_.data(), from, bytes); }
  void read(void* to, std::size_t bytes) const override { std::memcpy(to, bytes_.data(), bytes); }

 private:
  std::vector<std::byte> bytes_;
};

// The calls of the CUDA driver that this needs. They have not changed since CUDA 4, so no CUDA header is
// needed.
struct Cuda {
  using Pointer = unsigned long long;  // CUdeviceptr on 64-bit machines

  detail::SharedObject object{"MUSTER_CUDA_LIBRARY", "libcuda.so.1",
                              "is the NVIDIA driver installed on this node?"};
  int (*allocate)(Pointer*, std::size_t) = object.find("cuMemAlloc_v2");
  int (*free)(Pointer) = object.find("cuMemFree_v2");
  int (*zero)(Pointer, unsigned char, std::size_t) = object.find("cuMemsetD8_v2");
  int (*to_gpu)(Pointer, const void*, std::size_t) = object.find("cuMemcpyHtoD_v2");
  int (*to_host)(void*, Pointer, std::size_t) = object.find("cuMemcpyDtoH_v2");
};

class GpuMemory : public Memory {
 public:
  explicit GpuMemory(std::size_t bytes) {
    require(cuda_.allocate(&pointer_, bytes), fmt::format("allocate {} bytes of GPU memory", bytes).c_str());
    require(cuda_.zero(pointer_, 0, bytes), "clear GPU memory");
  }
  ~GpuMemory() override { cuda_.free(pointer_); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  void* data() override { return reinterpret_cast<void*>(pointer_); }
  void write(const void* from, std::size_t bytes) override {
    require(cuda_.to_gpu(pointer_, from, bytes), "copy to the GPU");
  }
  void read(void* to, std::size_t bytes) const override {
    require(cuda_.to_host(to, pointer_, bytes), "copy from the GPU");
  }

 private:
  static void require(int result, const char* what) {
    if (result != 0) throw Error(ErrorCode::device, fmt::format("cannot {}: CUDA error {}", what, result));
  }

  Cuda cuda_;
  Cuda::Pointer pointer_ = 0;
};

}  // namespace

std::unique_ptr<Memory> host_memory(std::size_t bytes) { return std::make_unique<HostMemory>(bytes); }
std::unique_ptr<Memory> gpu_memory(std::size_t bytes) { return std::make_unique<GpuMemory>(bytes); }

}  // namespace muster::cli::bench
