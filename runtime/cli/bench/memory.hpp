// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace muster::cli::bench {

/// A buffer in the memory that the communicator uses. Zero at first.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() = 0;
  virtual void write(const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, std::size_t bytes) const = 0;
};

/// @throws std::bad_alloc
std::unique_ptr<Memory> host_memory(std::size_t bytes);
/// Memory of the calling thread's current GPU, which the job has opened.
/// @throws Error(ErrorCode::device), with CUDA's error number.
std::unique_ptr<Memory> gpu_memory(std::size_t bytes);

}  // namespace muster::cli::bench
