// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "communicator/nccl/comm_stream.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// What reductions do with the elements of gradients, where these lie. On host memory a call returns when it
/// is done; on GPU memory it is enqueued on stream(). Float32 is rounded once, to nearest even, by each
/// addition and division: both give the same bits, but for a NaN's, of which only the NaN is the same.
/// `count` may be 0. Buffers do not overlap.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  /// For the communicator's operations; null on host memory.
  virtual Stream stream() const noexcept = 0;
  /// Zeroed memory, which lives as long as this, or on a GPU as its lane.
  virtual float* floats(std::size_t count) = 0;
  virtual std::uint16_t* bfloat16s(std::size_t count) = 0;

  virtual void copy(float* to, const float* from, std::size_t count) = 0;
  /// to += from.
  virtual void add(float* to, const float* from, std::size_t count) = 0;
  virtual void divide(float* values, float divisor, std::size_t count) = 0;
  /// To bfloat16, nearest even, and back.
  virtual void narrow(std::uint16_t* to, const float* from, std::size_t count) = 0;
  virtual void widen(float* to, const std::uint16_t* from, std::size_t count) = 0;
  /// `from`: `shards` shards of `count` bfloat16. Their sum in float32, added in their order, divided and
  /// rounded.
  virtual void sum_shards(std::uint16_t* to, const std::uint16_t* from, std::size_t shards, std::size_t count,
                          float divisor) = 0;
};

std::unique_ptr<Arithmetic> make_host_arithmetic();
/// `lane` has loaded gpu_kernels(), or the arithmetic only copies.
std::unique_ptr<Arithmetic> make_gpu_arithmetic(std::shared_ptr<CommStream> lane);

}  // namespace muster::detail
