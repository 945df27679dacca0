// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compute/cuda/driver_library.hpp"
#include "compute/cuda/kernel_names.hpp"
#include "compute/memory.hpp"

namespace muster::compute::cuda {

struct Grid {
  std::size_t x = 1, y = 1, z = 1;
};

/// This process's GPU: its memory, a stream of the trainer's own and the trainer's kernels. Everything is
/// enqueued on the stream in the order of calls; only functions that say so wait. Not thread-safe.
///
/// @throws Error(ErrorCode::device) with CUDA's reason, each function.
class Gpu final : public Memory {
 public:
  /// On the context that is current in this thread, as Job::join() leaves it; without one, on device 0.
  /// @throws Error(ErrorCode::usage) in a build without kernels; Error(ErrorCode::device) when the GPU is too
  /// old for them.
  Gpu();
  ~Gpu() override;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const DriverLibrary& driver() const noexcept { return driver_; }
  CUstream stream() const noexcept { return stream_; }
  /// "NVIDIA H200".
  const std::string& name() const noexcept { return name_; }

  /// Zeroed on the stream, at a multiple of 256 bytes.
  void* allocate(std::size_t bytes) override;
  /// Waits for what is enqueued.
  void free(void* memory) noexcept override;
  bool is_host() const noexcept override { return false; }
  void copy_in(void* to, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* from, std::size_t bytes) override;
  /// Bytes that are allocated now, and the most that ever were.
  std::size_t allocated() const noexcept { return allocated_; }
  std::size_t most_allocated() const noexcept { return most_allocated_; }
  /// Bytes that CUDA says are free.
  std::size_t free_bytes() const;

  void clear(void* memory, std::size_t bytes);
  /// `from`, of pinned memory, stays as it is until the stream has passed.
  void upload(void* to, const void* from, std::size_t bytes);
  /// `to`, of pinned memory, has it when the stream has passed.
  void download(void* to, const void* from, std::size_t bytes);
  /// Waits for all that is enqueued.
  void synchronize();

  /// `threads`: of a block; `arguments`: exactly of the kernel's types.
  template <typename... Arguments>
  void launch(Kernel kernel, const Grid& grid, int threads, std::size_t shared_bytes,
              Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> addresses{&arguments...};
    launch_addresses(kernel, grid, threads, shared_bytes, addresses.data());
  }

 private:
  void use_context();
  void load_kernels();
  void launch_addresses(Kernel kernel, const Grid& grid, int threads, std::size_t shared_bytes,
                        void** arguments);

  DriverLibrary driver_;
  std::string name_;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  struct Function {
    CUfunction handle = nullptr;
    std::size_t shared_bytes = 0;  ///< that it may have
  };
  std::array<Function, kernel_names.size()> functions_{};
  std::vector<std::pair<void*, std::size_t>> blocks_;
  std::size_t allocated_ = 0, most_allocated_ = 0;
};

/// Host memory from which the GPU copies without waiting. Move-only.
class Pinned {
 public:
  Pinned(Gpu& gpu, std::size_t bytes);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* data() const noexcept { return memory_; }

 private:
  Gpu& gpu_;
  void* memory_ = nullptr;
};

/// A moment of the stream.
class Mark {
 public:
  explicit Mark(Gpu& gpu);
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  /// Here the stream is now.
  void set();
  /// Waits until the stream has come here; returns at once where it was never set.
  void wait();
  /// What is enqueued on `other` from now on waits until the stream has come here.
  void hold(CUstream other) const;
  /// Seconds from an earlier mark that was waited for, as this one.
  double since(const Mark& earlier) const;

 private:
  Gpu& gpu_;
  CUevent event_ = nullptr;
  bool is_set_ = false;
};

}  // namespace muster::compute::cuda
