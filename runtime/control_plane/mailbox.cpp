// SPDX-License-Identifier: Apache-2.0
#include "control_plane/mailbox.hpp"

#include <utility>

#include "repeat_error.hpp"

namespace muster::control {

bool Mailbox::fail(const Failure& failure) {
  std::lock_guard const lock(mutex_);
  if (failure_) return false;
  failure_ = failure;
  failed_ = true;
  changed_.notify_all();
  return true;
}

void Mailbox::on_loss(OnLoss call) {
  std::lock_guard const lock(mutex_);
  on_loss_ = std::move(call);
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
  auto const on_loss = failure.code == ErrorCode::lost_rank ? std::exchange(on_loss_, nullptr) : nullptr;
  lock.unlock();
  if (on_loss) on_loss(failure);
  noticed_ = true;
  if (failure.speaker != rank_) repeat_error(failure.code, failure.text);
  throw Error(failure.code, failure.text);
}

void Mailbox::wait_for_failure(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return failure_.has_value(); });
}

void Mailbox::deliver(const std::string& round, std::vector<Blob> blobs) {
  std::lock_guard const lock(mutex_);
  results_[round] = std::move(blobs);
  changed_.notify_all();
}

std::optional<std::vector<Blob>> Mailbox::wait_for(const std::string& round, Deadline::Clock::time_point until,
                                                 const std::atomic<bool>* given_up) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] {
    return failure_ || results_.contains(round) || (given_up != nullptr && *given_up);
  });
  if (auto result = results_.extract(round)) return std::move(result.mapped());
  return std::nullopt;
}

void Mailbox::wake() {
  std::lock_guard const lock(mutex_);
  changed_.notify_all();
}

std::uint64_t Mailbox::ask() {
  std::lock_guard const lock(mutex_);
  answers_.emplace(++questions_, std::nullopt);
  return questions_;
}

void Mailbox::answer(std::uint64_t question, const Message& message) {
  std::lock_guard const lock(mutex_);
  auto const found = answers_.find(question);
  if (found == answers_.end()) return;  // given up
  found->second = message;
  changed_.notify_all();
}

std::optional<Message> Mailbox::wait_for(std::uint64_t question, Deadline::Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return failure_ || answers_.at(question); });
  return std::move(answers_.extract(question).mapped());
}

void Mailbox::begin_leaving() {
  std::lock_guard const lock(mutex_);
  leaving_ = true;
}

bool Mailbox::leaving() const {
  std::lock_guard const lock(mutex_);
  return leaving_;
}

void Mailbox::end() {
  std::lock_guard const lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Mailbox::wait_for_end(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return ended_; });
}

}  // namespace muster::control
