// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "compute/cuda/kernels/kernel_binary.hpp"
#include "cuda/kernel_checks.hpp"
#include "muster/error.hpp"

namespace muster::compute::cuda {
namespace {

/// A kernel that needs more must opt in by an attribute (CUDA C++ Programming Guide, compute capabilities).
constexpr std::size_t default_shared_bytes = 48 << 10;

// At the start of a wait polls only yield the core; after this time they sleep.
constexpr std::chrono::milliseconds yield_time{20};
constexpr std::chrono::microseconds sleep_time{50};

}  // namespace

Gpu::Gpu(std::chrono::milliseconds wait_limit) : wait_limit_(wait_limit) {
  if (kernel_binary() == nullptr) {
    throw Error(
        ErrorCode::usage,
        "this muster-train was built without nvcc and has no kernels for a GPU: pass --device=cpu, or "
        "build it where CUDA's compiler is");
  }
  checks_ = detail::wants_kernel_checks();
  use_context();
  driver_.require(driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "no stream");
  driver_.require(driver_.event_create(&enqueued_, CU_EVENT_DISABLE_TIMING), "no event");
  load_kernels();
}

Gpu::~Gpu() {
  if (is_hung_) return;
  driver_.stream_synchronize(stream_);
  for (const auto& [memory, bytes] : blocks_) driver_.mem_free(reinterpret_cast<CUdeviceptr>(memory));
  driver_.module_unload(module_);
  driver_.event_destroy(enqueued_);
  driver_.stream_destroy(stream_);
}

void Gpu::use_context() {
  driver_.require(driver_.init(0), "cannot start");
  CUcontext context = nullptr;
  driver_.require(driver_.context_get_current(&context), "no context");
  CUdevice device = 0;
  if (context == nullptr) {
    driver_.require(driver_.device_get(&device, 0), "no device 0");
    driver_.require(driver_.primary_context_retain(&context, device), "no context");
    driver_.require(driver_.context_set_current(context), "no context");
  } else {
    driver_.require(driver_.context_get_device(&device), "no device");
  }
  std::array<char, 256> name{};
  driver_.require(driver_.device_get_name(name.data(), static_cast<int>(name.size()), device), "no name");
  name_ = name.data();
  int major = 0;
  driver_.require(driver_.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                  "no compute capability");
  if (major < 8) {
    throw Error(
        ErrorCode::device,
        fmt::format("{} has compute capability {}: training needs 8.0, for bfloat16; pass --device=cpu",
                    name_, major));
  }
}

void Gpu::load_kernels() {
  driver_.require(driver_.module_load_data(&module_, kernel_binary()), "its kernels cannot be loaded");
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    driver_.require(driver_.module_get_function(&functions_[i].handle, module_, kernel_names[i]),
                    kernel_names[i]);
    functions_[i].shared_bytes = default_shared_bytes;
    functions_[i].parameters.emplace(driver_, functions_[i].handle);
  }
}

void* Gpu::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  CUdeviceptr memory = 0;
  const CUresult result = driver_.mem_alloc(&memory, bytes);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorCode::device,
                fmt::format("no {:.1f} GiB of GPU memory beside {:.1f} GiB that are taken: CUDA says: {}; "
                            "try a smaller --batch",
                            static_cast<double>(bytes) / 0x1p30, static_cast<double>(allocated_) / 0x1p30,
                            driver_.reason(result)));
  }
  void* const block = reinterpret_cast<void*>(memory);
  blocks_.emplace_back(block, bytes);
  allocated_ += bytes;
  clear(block, bytes);
  return block;
}

void Gpu::free(void* memory) noexcept {
  if (is_hung_) return;
  const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                  [memory](const auto& block) { return block.first == memory; });
  if (found == blocks_.end()) return;
  driver_.stream_synchronize(stream_);
  driver_.mem_free(reinterpret_cast<CUdeviceptr>(memory));
  allocated_ -= found->second;
  blocks_.erase(found);
}

std::size_t Gpu::free_bytes() const {
  std::size_t left = 0, all = 0;
  driver_.require(driver_.mem_get_info(&left, &all), "cannot query its free memory");
  return left;
}

void Gpu::clear(void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  driver_.require(driver_.memset_bytes(reinterpret_cast<CUdeviceptr>(memory), 0, bytes, stream_),
                  "clearing memory");
}

void Gpu::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  driver_.require(driver_.memcpy_on_device(reinterpret_cast<CUdeviceptr>(to),
                                           reinterpret_cast<CUdeviceptr>(from), bytes, stream_),
                  "a copy within its memory");
}

void Gpu::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  driver_.require(driver_.memcpy_to_device(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream_),
                  "a copy to it");
}

void Gpu::download(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  driver_.require(driver_.memcpy_to_host(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream_),
                  "a copy from it");
}

// CUDA copies unpinned memory through its own pinned buffer, piece by piece.
void Gpu::copy_in(void* to, const void* host, std::size_t bytes) {
  upload(to, host, bytes);
  synchronize("a copy to it");
}

void Gpu::copy_out(void* host, const void* from, std::size_t bytes) {
  download(host, from, bytes);
  synchronize("a copy from it");
}

void Gpu::synchronize(const char* what) {
  driver_.require(driver_.event_record(enqueued_, stream_), "an event");
  wait_for(enqueued_, what);
}

void Gpu::wait_for(CUevent event, const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const CUresult result = driver_.event_query(event);
    if (result != CUDA_ERROR_NOT_READY) return driver_.require(result, what);
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (is_hung_ || waited >= wait_limit_) break;
    if (waited < yield_time) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleep_time);
    }
  }
  is_hung_ = true;
  throw Error(
      ErrorCode::deadline,
      fmt::format("the GPU ({}) did not complete its work within {} s: {}: look for Xid errors in the "
                  "node's kernel log",
                  name_, std::chrono::duration<double>(wait_limit_).count(), what));
}

void Gpu::check(const std::string& what) {
  if (checks_) synchronize(what.c_str());
}

void Gpu::launch_addresses(Kernel kernel, const Grid& grid, int threads, std::size_t shared_bytes,
                           void** arguments, std::span<const std::size_t> argument_bytes) {
  const auto number = static_cast<std::size_t>(kernel);
  Function& function = functions_[number];
  if (const std::string difference = function.parameters->difference(argument_bytes); !difference.empty())
    throw Error(ErrorCode::device, fmt::format("the kernel {}: {}", kernel_names[number], difference));
  if (shared_bytes > function.shared_bytes) {
    driver_.require(
        driver_.function_set_attribute(function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       static_cast<int>(shared_bytes)),
        kernel_names[number]);
    function.shared_bytes = shared_bytes;
  }
  driver_.require(
      driver_.launch_kernel(function.handle, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                            static_cast<unsigned>(grid.z), static_cast<unsigned>(threads), 1, 1,
                            static_cast<unsigned>(shared_bytes), stream_, arguments, nullptr),
      kernel_names[number]);
  if (checks_)
    check(fmt::format("{} on {} x {} x {} blocks of {} threads", kernel_names[number], grid.x, grid.y, grid.z,
                      threads));
}

PinnedMemory::PinnedMemory(Gpu& gpu, std::size_t bytes) : gpu_(gpu) {
  gpu_.driver().require(gpu_.driver().mem_host_alloc(&memory_, std::max<std::size_t>(bytes, 1), 0),
                        "no pinned host memory");
}
PinnedMemory::~PinnedMemory() {
  if (!gpu_.is_hung()) gpu_.driver().mem_free_host(memory_);
}

Event::Event(Gpu& gpu) : gpu_(gpu) {
  gpu_.driver().require(gpu_.driver().event_create(&event_, CU_EVENT_DEFAULT), "no event");
}
Event::~Event() { gpu_.driver().event_destroy(event_); }
void Event::record(CUstream stream) {
  gpu_.driver().require(gpu_.driver().event_record(event_, stream), "an event");
  recorded_ = true;
}
void Event::synchronize(const char* what) {
  if (recorded_) gpu_.wait_for(event_, what);
}
void Event::block(CUstream other) const {
  gpu_.driver().require(gpu_.driver().stream_wait_event(other, event_, 0), "waiting for an event");
}
double Event::elapsed_since(const Event& earlier) const {
  float milliseconds = 0;
  gpu_.driver().require(gpu_.driver().event_elapsed_time(&milliseconds, earlier.event_, event_), "a time");
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace muster::compute::cuda
