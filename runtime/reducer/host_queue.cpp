// SPDX-License-Identifier: Apache-2.0
// Buckets on host memory: a separate thread reduces them.
#include <pthread.h>
#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "communicator/bucket_span.hpp"
#include "failure/background_errors.hpp"
#include "reducer/reduction.hpp"

namespace muster::detail {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class HostQueue : public BucketQueue {
 public:
  HostQueue(std::shared_ptr<CommunicatorBackend> comm, std::shared_ptr<const GradientLayout> layout,
            const ReducerOptions& options)
      : comm_(comm),
        reduction_(make_reduction({std::move(comm), std::move(layout), make_host_arithmetic()}, options)) {
    // A single rank has nothing to wait for.
    if (options.overlap && comm_->size() > 1) {
      comm_->prefer_sleeping_waits(true);
      thread_ = std::thread([this] { run(); });
    }
  }

  ~HostQueue() override {
    if (!thread_.joinable()) return;
    bool const interrupted = std::uncaught_exceptions() > unwinding_;
    if (interrupted) comm_->interrupt();
    {
      std::lock_guard const lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    // MPI may still use the buffers of an interrupted operation, so they are leaked.
    if (interrupted && error_) (void)reduction_.release();
  }

  void add_chunk(std::size_t bucket) override {
    check();
    reduction_->add_chunk(bucket);
  }

  void start(std::size_t bucket) override {
    check();
    current_.bytes += reduction_->bytes(bucket);
    ++current_.buckets;
    if (thread_.joinable()) comm_->count_background(1);
    {
      std::lock_guard const lock(mutex_);
      pending_.push_back(bucket);
    }
    if (thread_.joinable()) changed_.notify_all();
  }

  void finish(Stream) override {
    check();
    auto const begin = Clock::now();
    if (thread_.joinable()) {
      comm_->prefer_sleeping_waits(false);  // no thread computes now
      comm_->await_background(true);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return (pending_.empty() && !working_) || error_; });
      comm_->await_background(false);
      comm_->prefer_sleeping_waits(true);
    } else {
      for (auto const bucket : pending_) work(bucket);
      pending_.clear();
    }
    check();
    current_.exposed = seconds_since(begin);
    current_.communication = std::exchange(busy_seconds_, 0.0);
    current_.step = last_.step + 1;
    last_ = std::exchange(current_, {});
  }

  ReducerStatistics last_step() override { return last_; }
  std::optional<ReducerStatistics> statistics(std::uint64_t step) override {
    return step == last_.step ? std::optional(last_) : std::nullopt;
  }

 private:
  void work(std::size_t bucket) {
    observe::BucketSpan const span(*comm_, bucket, reduction_->bytes(bucket));
    auto const begin = Clock::now();
    reduction_->reduce(bucket);
    busy_seconds_ += seconds_since(begin);
  }

  void run() {
    pthread_setname_np(pthread_self(), "muster-reducer");  // as the timeline shows it
    control::BackgroundErrors const kept;
    ::prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);  // ns that a sleep may be late; the default is 50,000
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !pending_.empty(); });
      if (pending_.empty()) return;
      auto const bucket = pending_.front();
      pending_.pop_front();
      working_ = true;
      lock.unlock();
      std::exception_ptr error;
      try {
        work(bucket);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      working_ = false;
      comm_->count_background(-1);
      error_ = error;
      if (pending_.empty() || error) changed_.notify_all();
      if (error) return;
    }
  }

  void check() {
    std::unique_lock lock(mutex_);
    auto const error = error_;
    lock.unlock();
    if (!error) return;
    comm_->check_job();
    std::rethrow_exception(error);
  }

  std::shared_ptr<CommunicatorBackend> comm_;
  std::unique_ptr<BucketReduction> reduction_;
  int unwinding_ = std::uncaught_exceptions();
  ReducerStatistics current_, last_;
  double busy_seconds_ = 0;  // of the thread; read only while it is idle

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> pending_;
  bool working_ = false, stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BucketQueue> make_host_queue(std::shared_ptr<CommunicatorBackend> comm,
                                             std::shared_ptr<const GradientLayout> layout,
                                             const ReducerOptions& options) {
  return std::make_unique<HostQueue>(std::move(comm), std::move(layout), options);
}

}  // namespace muster::detail
