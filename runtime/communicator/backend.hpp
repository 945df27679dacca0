// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "communicator/grouped_calls.hpp"
#include "muster/collective_call.hpp"
#include "telemetry/operation_position.hpp"

namespace muster::detail {

class CommStream;
class PendingWork;
class WorkQueue;

/// The interface behind Communicator: NCCL, Open MPI, the control plane or a single rank. Communicator has
/// checked ranks, sizes and colors already.
class CommunicatorBackend {
 public:
  CommunicatorBackend();
  virtual ~CommunicatorBackend();
  CommunicatorBackend(const CommunicatorBackend&) = delete;
  CommunicatorBackend& operator=(const CommunicatorBackend&) = delete;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const char* backend() const noexcept = 0;
  /// "rank 2 (host node1)", of a rank of this communicator.
  virtual std::string describe_rank(int rank) const { return "rank " + std::to_string(rank); }
  virtual observe::OperationPosition position() const noexcept { return {"world", 0}; }

  /// Runs or enqueues the call. One without elements counts like any other, so that ranks whose lengths
  /// differ are found.
  virtual void run(const CollectiveCall& call, Stream stream) = 0;
  /// Runs or enqueues the calls of a group together. barrier, split and synchronize cannot be grouped.
  virtual void run_group(GroupedCalls::Calls calls) = 0;
  /// The same without waiting for other ranks, after earlier calls; null when it is complete. By default a
  /// thread of this communicator runs them.
  virtual std::unique_ptr<PendingWork> start_group(GroupedCalls::Calls calls);
  /// Returns when the calls that a thread runs for start_group() have completed. To be called before every
  /// other operation. @throws the error that ended them.
  void wait_for_started();
  /// @throws the job's failure, if there is one. To be called before an error that a thread of Muster kept is
  /// thrown to the program, which only then observes the failure.
  virtual void check_job() const {}
  /// True if all ranks reduce in the memory of one host: fewer bytes save less time there than it takes to
  /// convert the elements. Collective.
  virtual bool reduces_in_shared_memory() { return false; }
  virtual std::shared_ptr<CommunicatorBackend> split(int color, int key) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Callable from another thread: an operation that waits on this communicator, and every later one, throws.
  virtual void interrupt() noexcept {}
  /// Callable from another thread. While set, waits on this communicator sleep between polls and leave the
  /// core to compute threads, at the cost of latency.
  virtual void prefer_sleeping_waits(bool /*enabled*/) noexcept {}

  /// A thread of Muster makes `calls` more calls beside the program, or fewer.
  virtual void count_background(int /*calls*/) noexcept {}
  /// The program waits until some of these have ended, or no longer does.
  virtual void await_background(bool /*awaited*/) noexcept {}

  /// The group that the program records now.
  GroupedCalls& grouped() noexcept { return grouped_; }
  bool in_group() const noexcept { return grouped_.open(); }

  /// All-gather of a few numbers over the control plane, whatever memory the communicator is on; the result
  /// is by rank. `what` is a string literal.
  virtual std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                                  const std::vector<std::uint64_t>& mine) = 0;
  /// A side stream for operations of this communicator; null on host memory.
  virtual std::shared_ptr<CommStream> make_stream() { return nullptr; }

 private:
  GroupedCalls grouped_;
  std::unique_ptr<WorkQueue> queue_;  // of start_group()
};

std::shared_ptr<CommunicatorBackend> make_single_rank();

}  // namespace muster::detail
