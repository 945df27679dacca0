// SPDX-License-Identifier: Apache-2.0
#include "background_thread.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace muster {
namespace {

constexpr std::chrono::seconds idle_time{1};

// At most one thread waits for work.
class BackgroundThread {
 public:
  // False when no thread waits.
  bool give(std::function<void()>& work) {
    std::lock_guard const lock(mutex_);
    if (!waits_ || next_) return false;
    next_ = std::move(work);
    changed_.notify_one();
    return true;
  }

  // Empty when another thread waits already, or when no work came.
  std::function<void()> wait() {
    std::unique_lock lock(mutex_);
    if (waits_) return {};
    waits_ = true;
    changed_.wait_for(lock, idle_time, [this] { return static_cast<bool>(next_); });
    waits_ = false;
    return std::exchange(next_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waits_ = false;
  std::function<void()> next_;
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

void run_in_background(std::function<void()> work) {
  auto& thread = background_thread();
  if (thread.give(work)) return;
  std::thread([&thread, work = std::move(work)]() mutable {
    while (work) {
      work();
      work = {};  // what it owns ends now
      work = thread.wait();
    }
  }).detach();
}

}  // namespace muster
