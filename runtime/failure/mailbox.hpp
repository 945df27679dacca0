// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "deadline.hpp"
#include "failure/failure.hpp"
#include "protocol/message.hpp"

namespace muster::control {

using protocol::Blob;
using protocol::Message;

/// Where program threads wait for what a rank's control thread receives: results of rounds, responses of
/// rank 0, and the failure that ends the job. Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(int rank) : rank_(rank) {}

  /// Sets the job's failure. Only the first one counts; returns true for it. `printed`: this rank has printed
  /// it already. `tolerated`: the program goes on without the lost rank.
  bool fail(const Failure& failure, bool printed = false, bool tolerated = false);
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Throws the failure, if there is one. A rank other than the reporter first waits half a second: the
  /// launcher may end the job with the first process that ends, and must not end the reporter before it
  /// prints. The reporter of a loss does not exit earlier than that, so that the others find it alive. After
  /// a tolerated loss check() does not wait, and no rank exits earlier than that. With
  /// BackgroundErrors it throws at once, and the program has not observed the failure.
  void check() const;
  /// From now on check() waits longer: this rank may become the reporter of the failure. To be called before
  /// fail().
  void begin_reporter_check();
  /// Ends that. `reports`: this rank is the reporter.
  void end_reporter_check(bool reports);
  /// The first check() that would throw ErrorCode::lost_rank calls this before it throws.
  using OnLoss = std::function<void(const Failure& failure)>;
  void on_loss(OnLoss callback);
  /// True once the failure was thrown to the program.
  bool failure_observed() const noexcept { return failure_observed_; }
  bool has_on_loss() const;
  /// The failure, if this rank must print it and the program has not observed it. The caller then prints it;
  /// what check() throws after that is reported_elsewhere().
  std::optional<Failure> claim_report();
  /// The failure, if there is one.
  std::optional<Failure> failure() const;
  void wait_for_failure(std::chrono::milliseconds wait);

  void complete_round(const std::string& round, std::vector<Blob> blobs);
  /// Returns nothing when the job failed, at `until`, or when `interrupted` (may be null) was set before
  /// wake_waiters().
  std::optional<std::vector<Blob>> wait_for(const std::string& round, Deadline::Clock::time_point until,
                                            const std::atomic<bool>* interrupted = nullptr);
  void wake_waiters();

  /// Starts a request to rank 0 and returns its number.
  std::uint64_t begin_request();
  void on_response(std::uint64_t request, const Message& message);
  /// The response; nothing when the job failed, or at `until`. Ends the request.
  std::optional<Message> wait_for(std::uint64_t request, Deadline::Clock::time_point until);

  /// From here on a disconnect is no loss.
  void begin_leaving();
  bool leaving() const;
  /// Called after begin_leaving(), when the ranks that connect through this one have disconnected.
  void mark_disconnected();
  void wait_for_disconnects(std::chrono::milliseconds wait);

 private:
  /// Until this rank knows if it is the reporter. If it is not, it waits half a second more, unless the loss
  /// is tolerated.
  void wait_for_reporter(std::unique_lock<std::mutex>& lock) const;

  int rank_;
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> failure_observed_{false};
  mutable OnLoss on_loss_;  // null once called
  bool report_claimed_ = false;
  bool tolerated_ = false;
  bool checks_reporter_ = false;
  mutable std::mutex mutex_;
  mutable Condition changed_;
  std::optional<Failure> failure_;
  std::map<std::string, std::vector<Blob>> results_;
  std::map<std::uint64_t, std::optional<Message>> responses_;  // by number, of requests that still wait
  std::uint64_t last_request_ = 0;
  bool leaving_ = false;
  bool disconnected_ = false;
};

}  // namespace muster::control
