// SPDX-License-Identifier: Apache-2.0
#include "communicator/work_queue.hpp"

#include <pthread.h>

#include <utility>

#include "communicator/backend.hpp"
#include "communicator/operation.hpp"
#include "failure/background_errors.hpp"

namespace muster::detail {

class WorkQueue::QueuedWork : public PendingWork {
 public:
  QueuedWork(WorkQueue& queue, std::shared_ptr<Batch> batch) : queue_(queue), batch_(std::move(batch)) {}

  bool test() override {
    std::unique_lock lock(queue_.mutex_);
    bool const done = batch_->done;
    lock.unlock();
    if (done) queue_.rethrow(batch_->error);
    return done;
  }
  void wait() override {
    std::unique_lock lock(queue_.mutex_);
    queue_.wait(lock, [this] { return batch_->done; });
    lock.unlock();
    queue_.rethrow(batch_->error);
  }
  bool wait_until(const Deadline& deadline) override {
    std::unique_lock lock(queue_.mutex_);
    bool const done = queue_.wait(
        lock, [this] { return batch_->done; }, &deadline);
    lock.unlock();
    if (done) queue_.rethrow(batch_->error);
    return done;
  }
  void abandon() noexcept override {
    std::unique_lock lock(queue_.mutex_);
    if (batch_->done) return;
    lock.unlock();
    queue_.backend_.interrupt();
  }

 private:
  WorkQueue& queue_;
  std::shared_ptr<Batch> batch_;
};

WorkQueue::WorkQueue(CommunicatorBackend& backend) : backend_(backend), thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<PendingWork> WorkQueue::add(GroupedCalls::Calls calls) {
  auto batch = std::make_shared<Batch>();
  batch->calls = std::move(calls);
  backend_.count_background(1);
  {
    std::lock_guard const lock(mutex_);
    batches_.push_back(batch);
  }
  changed_.notify_all();
  return std::make_unique<QueuedWork>(*this, std::move(batch));
}

template <typename Done>
bool WorkQueue::wait(std::unique_lock<std::mutex>& lock, Done done, const Deadline* deadline) {
  if (done()) return true;
  ++waiting_;
  backend_.prefer_sleeping_waits(false);
  if (deadline == nullptr) {
    backend_.await_background(true);
    changed_.wait(lock, done);
    backend_.await_background(false);
  } else {
    changed_.wait_until(lock, deadline->when(), done);
  }
  --waiting_;
  if (done()) return true;
  backend_.prefer_sleeping_waits(waiting_ == 0);
  return false;
}

void WorkQueue::wait_for_all() {
  std::unique_lock lock(mutex_);
  if (!batches_.empty()) wait(lock, [this] { return batches_.empty(); });
  auto const error = error_;
  lock.unlock();
  rethrow(error);
}

void WorkQueue::rethrow(const std::exception_ptr& error) const {
  if (!error) return;
  backend_.check_job();
  std::rethrow_exception(error);
}

void WorkQueue::run() {
  pthread_setname_np(pthread_self(), "muster-async");  // as the timeline shows it
  control::BackgroundErrors const kept;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !batches_.empty(); });
    if (batches_.empty()) return;
    run_next(lock);
    changed_.notify_all();
  }
}

void WorkQueue::run_next(std::unique_lock<std::mutex>& lock) {
  auto const batch = batches_.front();
  auto error = error_;
  if (!error) {
    backend_.prefer_sleeping_waits(waiting_ == 0);
    lock.unlock();
    try {
      observe::Operation const operation(backend_, OperationKind::grouped, 0);
      backend_.run_group(std::move(batch->calls));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    backend_.prefer_sleeping_waits(false);
  }
  error_ = error;
  batch->error = error;
  batch->done = true;
  batches_.pop_front();
  backend_.count_background(-1);
}

}  // namespace muster::detail
