// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "muster/types.hpp"

namespace muster::detail {

/// What NCCL, Open MPI and a world of one do behind Communicator, which has checked ranks, sizes and colors
/// already. Counts are in elements. `in` and `out` are equal for an operation in place and do not overlap
/// otherwise.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const char* backend() const noexcept = 0;

  virtual void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                          Stream stream) = 0;
  virtual void broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) = 0;
  /// `count` is one rank's share.
  virtual void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) = 0;
  /// `count` is one rank's share.
  virtual void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                              Stream stream) = 0;
  virtual void send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) = 0;
  virtual void recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) = 0;
  virtual void barrier(Stream stream) = 0;
  virtual std::shared_ptr<Collectives> split(int color, int key) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Callable from another thread: an operation that waits in this communicator, and every later one, throws.
  virtual void interrupt() noexcept {}
};

std::shared_ptr<Collectives> make_alone();

}  // namespace muster::detail
