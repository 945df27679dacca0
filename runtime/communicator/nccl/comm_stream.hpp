// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "muster/types.hpp"

namespace muster::detail {

/// A CUDA stream of its own beside the program's, with memory for a communicator and a clock. Nothing here
/// waits. What CUDA refuses ends the job with its reason, as an operation of the communicator does.
class CommStream {
 public:
  virtual ~CommStream() = default;

  virtual Stream stream() const noexcept = 0;
  /// What is enqueued on stream() from now on waits for what is enqueued on `other` already.
  virtual void follow(Stream other) = 0;
  /// What is enqueued on `other` from now on waits for what is enqueued on stream() already.
  virtual void lead(Stream other) = 0;
  /// On stream().
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  /// Loads a CUDA module with kernels of these names, which stays as long as the lane. Once. `module`: a fat
  /// binary.
  virtual void load_kernels(const void* module, std::span<const char* const> names) = 0;
  /// Enqueues kernel number `kernel` of these on stream(), with blocks for `elements` (not 0), or fewer that
  /// take several each. `arguments`: addresses, in the kernel's order.
  virtual void launch(std::size_t kernel, std::size_t elements, void** arguments) = 0;

  /// GPU memory, zeroed on stream(), from ncclMemAlloc where NCCL has it and registered with the
  /// communicator. It is freed with the lane.
  virtual void* allocate(std::size_t bytes) = 0;
  /// Registers memory of the program's with the communicator, where NCCL can; else nothing happens.
  virtual void register_memory(void* memory, std::size_t bytes) = 0;

  /// Puts mark number `mark` where `on` (stream() or the program's) is now; small numbers.
  virtual void mark(std::size_t mark, Stream on) = 0;
  /// Seconds between two marks; nothing when one of them was not reached yet.
  virtual std::optional<double> between(std::size_t begin, std::size_t end) = 0;
};

}  // namespace muster::detail
