// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "communicator/grouped_calls.hpp"
#include "communicator/pending_work.hpp"

namespace muster::detail {

class CommunicatorBackend;

/// Runs calls on a communicator on host memory, in order, on a thread of its own. After an error the later
/// ones end with the same error. Destroyed when all its work has completed.
class WorkQueue {
 public:
  /// `backend` outlives it, except for its destructor.
  explicit WorkQueue(CommunicatorBackend& backend);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  std::unique_ptr<PendingWork> add(GroupedCalls::Calls calls);
  /// Returns when all added work has completed. @throws the error that ended it.
  void wait_for_all();

 private:
  struct Batch {
    GroupedCalls::Calls calls;
    bool done = false;
    std::exception_ptr error;
  };
  class QueuedWork;

  void run();
  void run_next(std::unique_lock<std::mutex>& lock);
  // Throws `error` to the program, unless it is null.
  void rethrow(const std::exception_ptr& error) const;
  // Waits until `done`, while the communicator does not leave its core to a program that computes. False when
  // the deadline passes first.
  template <typename Done>
  bool wait(std::unique_lock<std::mutex>& lock, Done done, const Deadline* deadline = nullptr);

  CommunicatorBackend& backend_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> batches_;  // the first one is running
  std::exception_ptr error_;
  int waiting_ = 0;  // threads in wait()
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::detail
