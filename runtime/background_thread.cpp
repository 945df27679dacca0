// SPDX-License-Identifier: Apache-2.0
#include "background_thread.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace muster {
namespace {

constexpr std::chrono::seconds idle_time{1};

struct Call {
  std::function<void()> work, on_done;
};

// At most one thread is idle.
class BackgroundThread {
 public:
  // False when no thread is idle.
  bool give(Call& call) {
    {
      std::lock_guard const lock(mutex_);
      if (!idle_ || next_) return false;
      next_ = std::move(call);
    }
    changed_.notify_one();
    return true;
  }

  // False when another thread is idle.
  bool become_idle() {
    std::lock_guard const lock(mutex_);
    return !std::exchange(idle_, true);
  }

  // For the idle thread. Empty when no work came.
  std::optional<Call> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, idle_time, [this] { return next_.has_value(); });
    idle_ = false;
    return std::exchange(next_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool idle_ = false;
  std::optional<Call> next_;
};

// A child that was forked has none of the threads, so it gets an object of its own. They are never destroyed:
// threads may still run when the process ends.
BackgroundThread& background_thread() {
  static std::mutex mutex;
  static pid_t process = 0;
  static BackgroundThread* object = nullptr;
  std::lock_guard const lock(mutex);
  if (process != ::getpid()) {
    object = new BackgroundThread;
    process = ::getpid();
  }
  return *object;
}

}  // namespace

void run_in_background(std::function<void()> work, std::function<void()> on_done) {
  auto& thread = background_thread();
  Call first{std::move(work), std::move(on_done)};
  if (thread.give(first)) return;
  std::thread([&thread, call = std::optional(std::move(first))]() mutable {
    while (call) {
      call->work();
      bool const idle = thread.become_idle();
      call->on_done();
      call.reset();  // what it owns ends now
      if (idle) call = thread.wait();
    }
  }).detach();
}

}  // namespace muster
