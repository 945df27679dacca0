// SPDX-License-Identifier: Apache-2.0
// Buckets on host memory: a thread of their own reduces them.
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
#include "reducer/reduction.hpp"

namespace muster::detail {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class HostQueue : public BucketQueue {
 public:
  HostQueue(std::shared_ptr<CommunicatorBackend> own, std::shared_ptr<const GradientLayout> layout,
            const ReducerOptions& options)
      : own_(own),
        reduction_(make_reduction({std::move(own), std::move(layout), make_host_arithmetic()}, options)) {
    // Alone there is nothing to wait for.
    if (options.overlap && own_->size() > 1) {
      own_->prefer_sleeping_waits(true);
      thread_ = std::thread([this] { run(); });
    }
  }

  ~HostQueue() override {
    if (!thread_.joinable()) return;
    bool const interrupted = std::uncaught_exceptions() > unwinding_;
    if (interrupted) own_->interrupt();
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    // MPI may still use the buffers of an operation that was cut off.
    if (interrupted && error_) (void)reduction_.release();
  }

  void take(std::size_t bucket) override {
    check();
    reduction_->take(bucket);
  }

  void start(std::size_t bucket) override {
    check();
    now_.bytes += reduction_->bytes(bucket);
    ++now_.buckets;
    {
      std::lock_guard const lock(mutex_);
      waiting_.push_back(bucket);
    }
    if (thread_.joinable()) changed_.notify_all();
  }

  void finish(Stream) override {
    check();
    auto const begin = Clock::now();
    if (thread_.joinable()) {
      own_->prefer_sleeping_waits(false);  // nobody computes now
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return (waiting_.empty() && !working_) || error_; });
      own_->prefer_sleeping_waits(true);
    } else {
      for (auto const bucket : waiting_) work(bucket);
      waiting_.clear();
    }
    check();
    now_.exposed = seconds_since(begin);
    now_.communication = std::exchange(busy_, 0.0);
    now_.step = last_.step + 1;
    last_ = std::exchange(now_, {});
  }

  ReducerStatistics last_step() override { return last_; }
  std::optional<ReducerStatistics> of_step(std::uint64_t step) override {
    return step == last_.step ? std::optional(last_) : std::nullopt;
  }

 private:
  void work(std::size_t bucket) {
    observe::BucketSpan const span(*own_, bucket, reduction_->bytes(bucket));
    auto const begin = Clock::now();
    reduction_->reduce(bucket);
    busy_ += seconds_since(begin);
  }

  void run() {
    pthread_setname_np(pthread_self(), "muster-reducer");  // as the timeline shows it
    ::prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);  // ns by which a sleep may be late; 50,000 if not set
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto const bucket = waiting_.front();
      waiting_.pop_front();
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
      error_ = error;
      if (waiting_.empty() || error) changed_.notify_all();
      if (error) return;
    }
  }

  void check() {
    std::lock_guard const lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

  std::shared_ptr<CommunicatorBackend> own_;
  std::unique_ptr<BucketReduction> reduction_;
  int unwinding_ = std::uncaught_exceptions();
  ReducerStatistics now_, last_;
  double busy_ = 0;  // of the thread; read when it has nothing to do

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> waiting_;
  bool working_ = false, ending_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BucketQueue> make_host_queue(std::shared_ptr<CommunicatorBackend> own,
                                             std::shared_ptr<const GradientLayout> layout,
                                             const ReducerOptions& options) {
  return std::make_unique<HostQueue>(std::move(own), std::move(layout), options);
}

}  // namespace muster::detail
