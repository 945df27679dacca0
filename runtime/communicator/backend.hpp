// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "muster/collective_call.hpp"
#include "telemetry/operation_position.hpp"

namespace muster::detail {

class CommStream;

/// The interface behind Communicator: NCCL, Open MPI, the control plane or a single rank. Communicator has
/// checked ranks, sizes and colors already.
class CommunicatorBackend {
 public:
  virtual ~CommunicatorBackend() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const char* backend() const noexcept = 0;
  virtual observe::OperationPosition position() const noexcept { return {"world", 0}; }

  /// Runs or enqueues the call, which has elements unless it is a barrier; only records it within a group.
  virtual void run(const CollectiveCall& call, Stream stream) = 0;
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
