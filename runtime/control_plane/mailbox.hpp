// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "failure/failure.hpp"

namespace muster::control {

using Blob = std::vector<std::uint8_t>;

/// What the control plane's thread of one rank hears and the program's threads wait for: results of rounds,
/// answers of rank 0, and the failure that ends the job. Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(int rank) : rank_(rank) {}

  /// The job has failed; the first reason counts, and true comes back for it.
  bool fail(const Failure& failure);
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Throws the failure, if there is one. A rank that is not to speak waits half a second first, so that the
  /// launcher, which may end the job with the first process that ends, does not silence the one that speaks.
  void check() const;
  /// Called by the first check() that would throw a lost rank, before it does.
  using OnLoss = std::function<void(const Failure& failure)>;
  void on_loss(OnLoss call);
  /// The failure was thrown to the program.
  bool noticed() const noexcept { return noticed_; }
  bool has_on_loss() const;
  /// The failure, if there is one.
  std::optional<Failure> failure() const;
  void wait_for_failure(std::chrono::milliseconds wait);

  void deliver(const std::string& round, std::vector<Blob> blobs);
  /// Nothing when the job failed, the time passed, or `given_up`, which may be null, was set before a wake().
  std::optional<std::vector<Blob>> wait_for(const std::string& round, Deadline::Clock::time_point until,
                                            const std::atomic<bool>* given_up = nullptr);
  void wake();

  /// A question to rank 0 begins; its number.
  std::uint64_t ask();
  void answer(std::uint64_t question, const Message& message);
  /// Nothing when the job failed or the time passed. The question ends.
  std::optional<Message> wait_for(std::uint64_t question, Deadline::Clock::time_point until);

  /// From here on a connection that ends is no loss.
  void begin_leaving();
  bool leaving() const;
  /// The control plane's thread has ended.
  void end();
  void wait_for_end(std::chrono::milliseconds wait);

 private:
  int rank_;
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> noticed_{false};
  mutable OnLoss on_loss_;  // until it was called
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::map<std::string, std::vector<Blob>> results_;
  std::map<std::uint64_t, std::optional<Message>> answers_;  // to what somebody still waits for
  std::uint64_t questions_ = 0;
  bool leaving_ = false;
  bool ended_ = false;
};

}  // namespace muster::control
