// SPDX-License-Identifier: Apache-2.0
#include "control_plane/control_thread.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "failure/exit_wait.hpp"
#include "repeat_error.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// More than any handler takes.
constexpr std::chrono::minutes longest_handler{1};
// How long queued messages may take to be sent when this process ends.
constexpr milliseconds flush_timeout{1000};
// Which is enough if no packet was lost. The others look for this rank 0.1 s after its message, and it stays
// for remote_error_delay.
constexpr milliseconds usual_flush_time{300};

}  // namespace

void ControlThread::start() {
  io_.restart();
  work_.emplace(asio::make_work_guard(io_));
  finishing_ = ended_ = false;
  running_ = true;
  if (simulation) return simulation->start_thread(this, [this] { return run_ready_handlers(); });
  thread_ = std::thread([this] { run(); });
}

void ControlThread::run() {
  sigset_t all;  // signals are for the program's threads; a closed stderr must not end this process
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while (!io_.stopped()) run_handlers([this] { io_.run(); });
  mark_ended();
}

bool ControlThread::run_ready_handlers() {
  run_handlers([this] { io_.poll(); });
  if (io_.stopped()) mark_ended();
  return !io_.stopped();
}

// After an exception the thread continues: rank 0 still has to send the failure to the other ranks.
void ControlThread::run_handlers(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    on_error_(error.what());
  }
}

void ControlThread::mark_ended() {
  std::lock_guard const lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool ControlThread::finish(milliseconds wait) noexcept {
  asio::post(io_, [this] {
    work_.reset();
    std::lock_guard const lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest_handler, [this] { return finishing_ || ended_; });
  return changed_.wait_for(lock, wait, [this] { return ended_; });
}

void ControlThread::end(milliseconds wait) noexcept {
  if (!running_) return;
  running_ = false;
  finish(wait);
  io_.stop();
  if (simulation) return simulation->join_thread(this);
  if (thread_.joinable()) thread_.join();
}

void ControlThread::end_when_sent(std::shared_ptr<const void> owner, milliseconds longest) noexcept {
  // In the simulator each message arrives.
  if (simulation || owner == nullptr || finish(usual_flush_time)) return end(flush_timeout);
  call_at_exit([this, owner = std::move(owner), longest = std::max(flush_timeout, longest)] {
    end(longest);
    std::this_thread::sleep_for(remote_error_delay);
  });
}

}  // namespace muster::control
