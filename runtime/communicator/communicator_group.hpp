// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "deadline.hpp"
#include "muster/job.hpp"
#include "telemetry/operation_position.hpp"

namespace muster::detail {

/// State that all communicators of the job share.
struct JobContext {
  std::shared_ptr<control::ControlPlane> plane;  ///< null in a world of one rank
  std::vector<Hello> roster;
  int rank = 0;  ///< this process's rank in the job
  std::chrono::milliseconds operation_timeout{0};
  /// Durations of the phases; the communicators add to them.
  std::shared_ptr<Timings> timings = std::make_shared<Timings>();
};

/// The ranks of one communicator, the operation that this rank is in, and the reports of its failures.
class CommunicatorGroup {
 public:
  /// All ranks of the job. `name` identifies the communicator in messages and must be the same on every rank.
  CommunicatorGroup(const std::shared_ptr<const JobContext>& job, const std::string& name);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const noexcept { return members_; }
  const JobContext& job() const noexcept { return *job_; }
  const std::string& name() const noexcept { return name_; }
  std::chrono::milliseconds timeout() const noexcept { return job_->operation_timeout; }
  /// Of the last operation: timeout() after this rank first waited in it.
  const Deadline& deadline() { return deadline_ ? *deadline_ : deadline_.emplace(timeout()); }
  /// For operations of one call: the last one ends at `deadline`, too.
  void set_deadline(const Deadline& deadline) noexcept { deadline_ = deadline; }
  /// "rank 2 (host node1)".
  std::string describe_this_rank() const;

  /// The group of the ranks that pass the same color, ordered by key, then by rank in this group. Collective,
  /// on the host, within timeout().
  CommunicatorGroup split(int color, int key);

  /// Every rank's numbers, by rank in this group. Collective, on the host, within timeout(). `what` is a
  /// string literal.
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                          const std::vector<std::uint64_t>& mine);

  /// Records that this rank enters an operation of the whole group. `operation` is a string literal.
  /// @throws the job's failure, if there is one.
  void begin_operation(const char* operation);
  /// The same for a call of an operation. Rank 0 compares the first calls on each communicator and some later
  /// ones, all calls with MUSTER_CHECK=calls: the job fails soon after ranks made different calls.
  /// `reports_counts`: it also compares the counts of an all_to_all_v, which this backend does not do itself.
  /// Returns digest().
  std::uint64_t begin_call(const CollectiveCall& call, bool reports_counts = false);
  /// Fails the job because ranks make different calls in the last operation, and throws the failure, which
  /// names them.
  [[noreturn]] void fail_mismatch() const;
  /// Fails the job if what another rank sends to this one in the last operation, an all_to_all_v, is not what
  /// this one expects: the elements, by rank.
  void require_recv_counts(std::span<const std::uint64_t> sent,
                           std::span<const std::size_t> recv_counts) const;
  /// As begin_operation(), for an operation that connects the ranks and so may be slower than any collective:
  /// the first stall warning comes no earlier than the default stall_warning, even if the job's is shorter.
  void begin_setup(const char* operation);
  /// Marks this rank's program as waiting in the operation that it entered last, for as long as the object
  /// lives. The stall diagnosis reports this to the other ranks.
  class WaitScope {
   public:
    explicit WaitScope(control::OperationState& state)
        : operation_state_(state), before_(state.inside.load(std::memory_order_relaxed)) {
      state.inside.store(true, std::memory_order_release);
    }
    ~WaitScope() { operation_state_.inside.store(before_, std::memory_order_release); }
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

   private:
    control::OperationState& operation_state_;
    bool before_;
  };
  WaitScope wait_scope() const { return WaitScope(*operation_state_); }
  /// The same where the program does not wait, or will go on after a while.
  class WatchScope {
   public:
    explicit WatchScope(control::OperationState& state) : mark_(state.watched), wait_scope_(state) {}

   private:
    // A member of its own, so that it is set before `inside`, and reset after it.
    struct WatchMark {
      explicit WatchMark(std::atomic<bool>& flag) : watched(flag) { watched = true; }
      ~WatchMark() { watched = false; }
      WatchMark(const WatchMark&) = delete;
      WatchMark& operator=(const WatchMark&) = delete;
      std::atomic<bool>& watched;
    } mark_;
    WaitScope wait_scope_;
  };
  std::unique_ptr<WatchScope> watch_scope() const { return std::make_unique<WatchScope>(*operation_state_); }
  /// Records that this rank enters sends and receives with `peers`, ranks of this group. They are not
  /// counted, because not every rank takes part.
  void begin_messages(const char* operation, std::span<const int> peers);
  /// To be called before the first call: rank 0 then learns in which call this rank waits, and for whom.
  /// Returns the counts of the messages, which a caller on MPI keeps. `on_gpu`: some
  /// operations need fewer ranks there.
  control::MessageCounters& track_waits(bool on_gpu = false);
  /// A thread of Muster makes `calls` more calls beside the program, or fewer.
  void count_background(int calls) noexcept { operation_state_->background += calls; }
  /// The program waits until some of these have ended.
  void await_background(bool awaited) noexcept;
  /// Of the operations of the whole group that this rank has entered: equal on ranks that made the same
  /// calls.
  std::uint64_t digest() const noexcept { return operation_state_->digest(); }
  /// How many operations of the whole group this rank has entered; equal on all ranks in the same operation.
  std::uint64_t number() const noexcept { return operation_state_->number.load(); }
  const char* operation() const noexcept { return operation_state_->operation.load(); }
  observe::OperationPosition position() const noexcept {
    return {interned_name_, operation_state_->number + 1};
  }
  /// True when the job has failed: check() then throws.
  bool failed() const noexcept { return job_->plane && job_->plane->failed(); }
  void check() const;
  /// To be called regularly while this rank waits under `deadline` in the last operation. After a second, and
  /// ever more rarely, rank 0 compares the ranks' calls; it also warns of a stall when a warning is due.
  void warn_if_stalled(const Deadline& deadline);
  void warn_if_stalled() { warn_if_stalled(deadline()); }
  /// Fails the job because the last operation did not complete within `waited`, and throws the failure.
  [[noreturn]] void fail_stalled(std::chrono::milliseconds waited) const;
  /// Ends the job on every rank with the operation, this rank and `reason`, and throws the job's failure. In
  /// an operation of the whole group the failure also names the ranks that have not entered it.
  [[noreturn]] void fail(ErrorCode code, const std::string& reason) const;
  /// As fail_stalled() and fail(), for a thread that reports the failure but must not throw it. The job has a
  /// control plane.
  void report_stalled(std::chrono::milliseconds waited) const;
  void report_failure(ErrorCode code, const std::string& reason) const;

 private:
  enum class CallReports { none, some, all };  // by MUSTER_CHECK
  static CallReports chosen_call_reports();

  protocol::StalledOperation stalled_operation(std::chrono::milliseconds waited) const;
  protocol::StalledOperation failed_operation(ErrorCode code, const std::string& reason) const;
  std::string describe_operation() const;
  std::string failure_text(const std::string& reason) const;
  std::uint64_t collective_number() const { return peers_.empty() ? number() : 0; }
  void start_operation(std::span<const int> peers = {});

  CommunicatorGroup(std::shared_ptr<const JobContext> job, std::string name, std::vector<int> members);

  std::shared_ptr<const JobContext> job_;
  std::string name_;
  const char* interned_name_;
  std::vector<int> members_;  // ranks in the job, by rank in this group
  int rank_ = 0;
  std::vector<int> peers_;         // of the last messages; empty in an operation of the whole group
  std::uint64_t split_count_ = 0;  // names each split: every member takes part in all of them
  std::uint64_t host_gathers_ = 0;
  CallReports call_reports_;
  std::uint64_t calls_ = 0;
  std::optional<Deadline> deadline_;          // set when it is needed first: reading the clock takes time
  std::chrono::milliseconds next_report_{0};  // to rank 0, of a wait; 0: none was made
  std::shared_ptr<control::OperationState> operation_state_;
};

}  // namespace muster::detail
