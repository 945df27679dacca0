// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "muster/types.hpp"

namespace muster::detail {

/// A side stream of CUDA next to the program's streams, with memory for a communicator and timing. A
/// function waits only if its comment says so. An error of CUDA ends the job with its reason, as in an
/// operation of the communicator.
class CommStream {
 public:
  virtual ~CommStream() = default;

  virtual Stream stream() const noexcept = 0;
  /// Work enqueued on stream() from now on waits for the work that `other` has now.
  virtual void wait_for(Stream other) = 0;
  /// Work enqueued on `other` from now on waits for the work that stream() has now.
  virtual void block(Stream other) = 0;
  /// Enqueues a copy on stream().
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  /// Loads a CUDA module with kernels of these names, which lives as long as this object. To be called once.
  /// `module`: a fat binary.
  virtual void load_kernels(const void* module, std::span<const char* const> names) = 0;
  /// Enqueues kernel `kernel`, an index into the loaded names, on stream(), with one thread for each of
  /// `elements` (not 0) elements, or fewer threads that handle several each. `arguments`: addresses of the
  /// kernel's arguments, in its order; `argument_bytes`: their sizes, which must be those of its parameters.
  virtual void launch(std::size_t kernel, std::size_t elements, void** arguments,
                      std::span<const std::size_t> argument_bytes) = 0;

  /// GPU memory, zeroed on stream(), from ncclMemAlloc if NCCL has it, and registered with the communicator.
  /// This object frees it.
  virtual void* allocate(std::size_t bytes) = 0;
  /// The same on every rank, with equal `bytes`, and registered as a symmetric window of NCCL 2.27 and later
  /// if NCCL makes one. `all_agree` returns whether every rank calls it with true. Collective; waits.
  virtual void* allocate_symmetric(std::size_t bytes, const std::function<bool(bool)>& all_agree) = 0;
  /// Registers memory of the program with the communicator, if NCCL can; else does nothing.
  virtual void register_memory(void* memory, std::size_t bytes) = 0;

  /// Records event number `event` at the current end of `on`, which is stream() or a stream of the program.
  /// Events are stored by number, so numbers should be small.
  virtual void record(std::size_t event, Stream on) = 0;
  /// Seconds between two recorded events; nothing if one of them was not reached yet.
  virtual std::optional<double> elapsed(std::size_t begin, std::size_t end) = 0;
};

}  // namespace muster::detail
