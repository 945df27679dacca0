// SPDX-License-Identifier: Apache-2.0
#include "failure/mailbox.hpp"

#include <utility>

#include "failure/background_errors.hpp"
#include "failure/exit_wait.hpp"
#include "repeat_error.hpp"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds longest_reporter_check{1500};

}  // namespace

bool Mailbox::fail(const Failure& failure, bool printed, bool tolerated) {
  std::lock_guard const lock(mutex_);
  if (failure_) return false;
  failure_ = failure;
  report_claimed_ = printed;
  tolerated_ = tolerated;
  failed_ = true;
  changed_.notify_all();
  return true;
}

void Mailbox::on_loss(OnLoss callback) {
  std::lock_guard const lock(mutex_);
  on_loss_ = std::move(callback);
}

bool Mailbox::has_on_loss() const {
  std::lock_guard const lock(mutex_);
  return on_loss_ != nullptr;
}

std::optional<Failure> Mailbox::failure() const {
  std::lock_guard const lock(mutex_);
  return failure_;
}

void Mailbox::check() const {
  std::unique_lock lock(mutex_);
  if (!failure_) return;
  auto const failure = *failure_;
  if (BackgroundErrors::active()) throw Error(failure.code, failure.text, true);
  auto const on_loss = failure.code == ErrorCode::lost_rank ? std::exchange(on_loss_, nullptr) : nullptr;
  lock.unlock();
  if (on_loss) on_loss(failure);
  lock.lock();
  bool const known = failure_observed_.exchange(true);
  wait_for_reporter(lock);
  bool const prints = failure_->reporter == rank_;
  bool const printed = !prints || report_claimed_;
  bool const exits_late = (prints && failure.code == ErrorCode::lost_rank) || tolerated_;
  lock.unlock();
  if (exits_late && !known) wait_at_exit(Clock::now() + remote_error_delay);
  throw Error(failure.code, failure.text, printed);
}

void Mailbox::wait_for_reporter(std::unique_lock<std::mutex>& lock) const {
  auto const reports = [this] { return failure_->reporter == rank_; };
  if (!tolerated_) changed_.wait_for(lock, remote_error_delay, reports);
  if (!checks_reporter_) return;
  changed_.wait_for(lock, longest_reporter_check, [this] { return !checks_reporter_; });
  if (!tolerated_) changed_.wait_for(lock, remote_error_delay, reports);
}

void Mailbox::begin_reporter_check() {
  std::lock_guard const lock(mutex_);
  checks_reporter_ = true;
}

void Mailbox::end_reporter_check(bool reports) {
  std::lock_guard const lock(mutex_);
  checks_reporter_ = false;
  if (reports && failure_) failure_->reporter = rank_;
  changed_.notify_all();
}

std::optional<Failure> Mailbox::claim_report() {
  std::lock_guard const lock(mutex_);
  if (!failure_ || failure_->reporter != rank_ || failure_observed_ || leaving_ || report_claimed_)
    return std::nullopt;
  report_claimed_ = true;
  return failure_;
}

void Mailbox::wait_for_failure(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return failure_.has_value(); });
}

void Mailbox::complete_round(const std::string& round, std::vector<Blob> blobs) {
  std::lock_guard const lock(mutex_);
  results_[round] = std::move(blobs);
  changed_.notify_all();
}

std::optional<std::vector<Blob>> Mailbox::wait_for(const std::string& round,
                                                   Deadline::Clock::time_point until,
                                                   const std::atomic<bool>* interrupted) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] {
    return failure_ || results_.contains(round) || (interrupted != nullptr && *interrupted);
  });
  if (auto result = results_.extract(round)) return std::move(result.mapped());
  return std::nullopt;
}

void Mailbox::wake_waiters() {
  std::lock_guard const lock(mutex_);
  changed_.notify_all();
}

std::uint64_t Mailbox::begin_request() {
  std::lock_guard const lock(mutex_);
  responses_.emplace(++last_request_, std::nullopt);
  return last_request_;
}

void Mailbox::on_response(std::uint64_t request, const Message& message) {
  std::lock_guard const lock(mutex_);
  auto const found = responses_.find(request);
  if (found == responses_.end()) return;  // the request timed out
  found->second = message;
  changed_.notify_all();
}

std::optional<Message> Mailbox::wait_for(std::uint64_t request, Deadline::Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return failure_ || responses_.at(request); });
  return std::move(responses_.extract(request).mapped());
}

void Mailbox::begin_leaving() {
  std::lock_guard const lock(mutex_);
  leaving_ = true;
}

bool Mailbox::leaving() const {
  std::lock_guard const lock(mutex_);
  return leaving_;
}

void Mailbox::mark_disconnected() {
  std::lock_guard const lock(mutex_);
  disconnected_ = true;
  changed_.notify_all();
}

void Mailbox::wait_for_disconnects(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return disconnected_; });
}

}  // namespace muster::control
