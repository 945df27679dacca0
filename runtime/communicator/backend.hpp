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

/// The interface behind Communicator: NCCL, Open MPI, the control plane or a single rank. Communicator has
/// checked ranks, sizes and colors already. Counts are in elements. `in` and `out` are equal for an operation
/// in place and do not overlap otherwise; in an all_gather and a reduce_scatter the short buffer may also be
/// this rank's share of the long one.
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
  /// `count`: elements of one rank's share.
  virtual void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) = 0;
  /// `counts`: the elements of each rank's share; their sum is not 0.
  virtual void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                            Stream stream) = 0;
  /// `count`: elements of one rank's share.
  virtual void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                              Stream stream) = 0;
  /// `count`: elements that each rank sends to each rank. Never in place.
  virtual void all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream stream) = 0;
  virtual void send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) = 0;
  virtual void recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) = 0;
  virtual void barrier(Stream stream) = 0;
  virtual std::shared_ptr<CommunicatorBackend> split(int color, int key) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Callable from another thread: an operation that waits on this communicator, and every later one, throws.
  virtual void interrupt() noexcept {}
  /// Callable from another thread. While set, waits on this communicator sleep between polls and leave the
  /// core to compute threads, at the cost of latency.
  virtual void prefer_sleeping_waits(bool /*enabled*/) noexcept {}

  /// From here on operations are recorded, until end_group() issues them together or discard_group() drops
  /// them. barrier, split and synchronize cannot be grouped.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void discard_group() noexcept = 0;
  virtual bool in_group() const noexcept = 0;

  /// All-gather of a few numbers over the control plane, whatever memory the communicator is on; the result
  /// is by rank. `what` is a string literal.
  virtual std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                                  const std::vector<std::uint64_t>& mine) = 0;
  /// A side stream for operations of this communicator; null on host memory.
  virtual std::shared_ptr<CommStream> make_stream() { return nullptr; }
};

std::shared_ptr<CommunicatorBackend> make_single_rank();

}  // namespace muster::detail
