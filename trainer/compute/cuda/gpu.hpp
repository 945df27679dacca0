// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/cuda/driver_library.hpp"
#include "compute/cuda/kernels/kernel_names.hpp"
#include "compute/memory.hpp"
#include "cuda/kernel_parameters.hpp"

namespace muster::compute::cuda {

struct Grid {
  std::size_t x = 1, y = 1, z = 1;
};

/// This process's GPU: its memory, the trainer's own stream and its kernels. All work is enqueued on the
/// stream in the order of calls; a function waits only if its comment says so. Not thread-safe.
///
/// CUDA reports the failure of a kernel at a later call. With MUSTER_CUDA_CHECK=1 the process waits after
/// each kernel and product, and the error names it.
///
/// @throws Error(ErrorCode::device) with CUDA's reason, from every function; Error(ErrorCode::deadline) from
/// those that wait, when the GPU's work is not done in time. The process can only end then: the GPU's memory
/// is not freed, since CUDA would wait for the work.
class Gpu final : public Memory {
 public:
  /// As JoinOptions::operation_timeout.
  static constexpr std::chrono::milliseconds default_wait_limit{600'000};

  /// Uses the context that is current in this thread, as Job::join() leaves it; without one, device 0.
  /// `wait_limit`: of every wait for its work.
  /// @throws Error(ErrorCode::usage) in a build without kernels; Error(ErrorCode::device) when the GPU's
  /// compute capability is too low for them.
  explicit Gpu(std::chrono::milliseconds wait_limit = default_wait_limit);
  ~Gpu() override;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const DriverLibrary& driver() const noexcept { return driver_; }
  CUstream stream() const noexcept { return stream_; }
  /// "NVIDIA H200".
  const std::string& name() const noexcept { return name_; }

  /// Zeroed on the stream, aligned to 256 bytes.
  void* allocate(std::size_t bytes) override;
  /// Waits for all enqueued work.
  void free(void* memory) noexcept override;
  bool is_host() const noexcept override { return false; }
  void copy_in(void* to, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* from, std::size_t bytes) override;
  /// Bytes that are allocated now.
  std::size_t allocated() const noexcept { return allocated_; }
  /// Free bytes as CUDA reports them.
  std::size_t free_bytes() const;

  void clear(void* memory, std::size_t bytes);
  /// Between blocks of its own memory.
  void copy(void* to, const void* from, std::size_t bytes);
  /// `from` is pinned memory; it must not change until the stream has done the copy.
  void upload(void* to, const void* from, std::size_t bytes);
  /// `to` is pinned memory; it holds the data once the stream has done the copy.
  void download(void* to, const void* from, std::size_t bytes);
  /// Waits for all enqueued work. `what` names the last of it, for errors.
  void synchronize(const char* what = "computing");
  /// Waits until the stream reaches the last record of `event`.
  void wait_for(CUevent event, const char* what);
  /// Whether a wait has reached its limit.
  bool is_hung() const noexcept { return is_hung_; }
  /// Whether MUSTER_CUDA_CHECK is 1.
  bool checks() const noexcept { return checks_; }
  /// With MUSTER_CUDA_CHECK=1: waits for all enqueued work, of which `what` is the last.
  void check(const std::string& what);

  /// `threads`: per block. `arguments` must have exactly the types of the kernel's parameters; from CUDA 12.4
  /// on their number and sizes are compared.
  template <typename... Arguments>
  void launch(Kernel kernel, const Grid& grid, int threads, std::size_t shared_bytes,
              Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> addresses{&arguments...};
    // NOLINTNEXTLINE(bugprone-sizeof-expression): a kernel's parameter is the pointer itself
    constexpr std::array<std::size_t, sizeof...(Arguments)> bytes{sizeof(Arguments)...};
    launch_addresses(kernel, grid, threads, shared_bytes, addresses.data(), bytes);
  }

 private:
  void use_context();
  void load_kernels();
  void launch_addresses(Kernel kernel, const Grid& grid, int threads, std::size_t shared_bytes,
                        void** arguments, std::span<const std::size_t> argument_bytes);

  DriverLibrary driver_;
  std::chrono::milliseconds wait_limit_;
  bool is_hung_ = false;
  bool checks_ = false;
  std::string name_;
  CUstream stream_ = nullptr;
  CUevent enqueued_ = nullptr;  ///< what synchronize() waits for
  CUmodule module_ = nullptr;
  struct Function {
    CUfunction handle = nullptr;
    std::size_t shared_bytes = 0;  ///< dynamic shared memory that a launch may use
    std::optional<detail::KernelParameters> parameters;
  };
  std::array<Function, kernel_names.size()> functions_{};
  std::vector<std::pair<void*, std::size_t>> blocks_;
  std::size_t allocated_ = 0;
};

/// Host memory that the GPU copies from and to asynchronously.
class PinnedMemory {
 public:
  PinnedMemory(Gpu& gpu, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const noexcept { return memory_; }

 private:
  Gpu& gpu_;
  void* memory_ = nullptr;
};

/// A CUDA event.
class Event {
 public:
  explicit Event(Gpu& gpu);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Records the present position of the GPU's stream, or of another one.
  void record() { record(gpu_.stream()); }
  void record(CUstream stream);
  /// Waits until the stream reaches the event; returns at once if it was never recorded. `what`: as
  /// Gpu::synchronize().
  void synchronize(const char* what = "computing");
  /// Makes later work on `other` wait for the event (cuStreamWaitEvent).
  void block(CUstream other) const;
  /// Seconds since an earlier event. Both must have been waited for.
  double elapsed_since(const Event& earlier) const;

 private:
  Gpu& gpu_;
  CUevent event_ = nullptr;
  bool recorded_ = false;
};

}  // namespace muster::compute::cuda
