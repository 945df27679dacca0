// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "communicator/nccl/comm_stream.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// Element-wise operations on gradients, on the host or on a GPU. On host memory a call returns when it is
/// done; on GPU memory it is enqueued on stream(). Each addition and each division rounds float32 once, to
/// nearest even, so both give the same bits, except for the payload of a NaN. `count` may be 0. Buffers do
/// not overlap.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  /// The stream for the communicator's operations; null on host memory.
  virtual Stream stream() const noexcept = 0;
  /// Zeroed memory, which lives as long as this object, on a GPU as long as its CommStream.
  virtual void* allocate(std::size_t bytes) = 0;
  float* floats(std::size_t count) { return static_cast<float*>(allocate(count * sizeof(float))); }
  std::uint16_t* bfloat16s(std::size_t count) {
    return static_cast<std::uint16_t*>(allocate(count * sizeof(std::uint16_t)));
  }

  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// to += from.
  virtual void add(float* to, const float* from, std::size_t count) = 0;
  virtual void divide(float* values, float divisor, std::size_t count) = 0;
  /// Converts to bfloat16, rounding to nearest even, and back.
  virtual void narrow(std::uint16_t* to, const float* from, std::size_t count) = 0;
  virtual void widen(float* to, const std::uint16_t* from, std::size_t count) = 0;
  /// Adds `shards` shards of `count` bfloat16 from `from`, in float32 and in their order, divides the sum and
  /// rounds it.
  virtual void sum_shards(std::uint16_t* to, const std::uint16_t* from, std::size_t shards, std::size_t count,
                          float divisor) = 0;
};

std::unique_ptr<Arithmetic> make_host_arithmetic();
/// `comm_stream` has loaded gpu_kernels(), unless the arithmetic only copies.
std::unique_ptr<Arithmetic> make_gpu_arithmetic(std::shared_ptr<CommStream> comm_stream);

}  // namespace muster::detail
