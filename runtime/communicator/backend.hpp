// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/types.hpp"
#include "telemetry/operation_position.hpp"

namespace muster::detail {

class CommStream;

/// What NCCL, Open MPI and a world of one do behind Communicator, which has checked ranks, sizes and colors
/// already. Counts are in elements. `in` and `out` are equal for an operation in place and do not overlap
/// otherwise; of a gather and a reduce_scatter the short one may also be this rank's share of the long one.
class CommunicatorBackend {
 public:
  virtual ~CommunicatorBackend() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const char* backend() const noexcept = 0;
  virtual observe::OperationPosition position() const noexcept { return {"world", 0}; }

  virtual void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                          Stream stream) = 0;
  virtual void reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root,
                      Stream stream) = 0;
  virtual void broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) = 0;
  /// `count` is one rank's share.
  virtual void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) = 0;
  /// `counts` has one share for each rank; their sum is not 0.
  virtual void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                            Stream stream) = 0;
  /// `count` is one rank's share.
  virtual void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                              Stream stream) = 0;
  /// `count` goes from each rank to each; never in place.
  virtual void all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream stream) = 0;
  virtual void send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) = 0;
  virtual void recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) = 0;
  virtual void barrier(Stream stream) = 0;
  virtual std::shared_ptr<CommunicatorBackend> split(int color, int key) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Callable from another thread: an operation that waits in this communicator, and every later one, throws.
  virtual void interrupt() noexcept {}
  /// Callable from another thread: while it is set, whoever waits in this communicator sleeps between two
  /// looks, so that the process's other threads compute. Without it a wait is over sooner.
  virtual void prefer_sleeping_waits(bool /*computing*/) noexcept {}

  /// From here to end_group(), which issues them together, or drop_group(), which forgets them, operations
  /// are kept. barrier, split and synchronize are not among them.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void drop_group() noexcept = 0;
  virtual bool in_group() const noexcept = 0;

  /// Every rank's few numbers, by rank: over the control plane, whatever memory the communicator is on.
  /// `what` is a string literal.
  virtual std::vector<std::vector<std::uint64_t>> tell_all(const char* what,
                                                           const std::vector<std::uint64_t>& mine) = 0;
  /// A stream of its own for operations of this communicator; null on host memory.
  virtual std::shared_ptr<CommStream> make_stream() { return nullptr; }
};

std::shared_ptr<CommunicatorBackend> make_alone();

}  // namespace muster::detail
