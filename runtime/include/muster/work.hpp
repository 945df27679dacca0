// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>

#include "muster/export.hpp"

namespace muster {

namespace detail {
class CommunicatorBackend;
class PendingWork;  // runtime/communicator/pending_work.hpp
}  // namespace detail

/// Operations that a communicator's async() has started, like torch.distributed's Work. Until they have
/// completed, their buffers belong to them: the program neither reads nor writes them.
///
/// On host memory a thread of the communicator runs them, in the order of the calls; a later call that is not
/// asynchronous runs after them. On "nccl" they are enqueued as without async(), and the Work is an event on
/// their stream. Each operation is limited by JoinOptions::operation_timeout, on host memory from when the
/// thread reaches it: wait() and the destructor also wait for all earlier operations.
///
/// Wait for all Works before Job::leave(). Not thread-safe.
class MUSTER_EXPORT Work {
 public:
  /// Complete.
  Work() noexcept;
  Work(std::shared_ptr<detail::CommunicatorBackend> collectives,
       std::unique_ptr<detail::PendingWork> pending);
  /// Waits until the operations have completed; an error is dropped here, and thrown by the communicator's
  /// next operation. While an exception unwinds it does not wait for other ranks: operations on host memory
  /// are interrupted, so that the communicator must not be used again, and the buffers may be written to
  /// until the process ends.
  ~Work();
  Work(Work&& other) noexcept;
  /// Waits for this one's operations first, as the destructor does.
  Work& operator=(Work&& other) noexcept;

  /// Returns when the operations have completed on this rank.
  /// @throws Error, that of the operation which failed, or of an earlier one on the same communicator.
  void wait();
  /// The same, at most for `limit`. False when they have not completed by then; they go on.
  bool wait_for(std::chrono::milliseconds limit);
  /// True when they have completed. Does not wait.
  /// @throws Error as wait().
  bool test();

 private:
  void finish() noexcept;

  std::shared_ptr<detail::CommunicatorBackend> collectives_;
  std::unique_ptr<detail::PendingWork> pending_;
  int unwinding_ = std::uncaught_exceptions();
};

}  // namespace muster
