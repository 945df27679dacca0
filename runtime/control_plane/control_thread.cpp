// SPDX-License-Identifier: Apache-2.0
#include "control_plane/control_thread.hpp"

#include <csignal>

namespace muster::control {
namespace {

// More than any handler takes.
constexpr std::chrono::minutes longest_handler{1};

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

bool ControlThread::finish(std::chrono::milliseconds wait) noexcept {
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

void ControlThread::end(std::chrono::milliseconds wait) noexcept {
  if (!running_) return;
  running_ = false;
  finish(wait);
  io_.stop();
  if (simulation) return simulation->join_thread(this);
  if (thread_.joinable()) thread_.join();
}

}  // namespace muster::control
