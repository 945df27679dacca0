// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "deadline.hpp"
#include "muster/job.hpp"
#include "telemetry/operation_position.hpp"

namespace muster::detail {

/// What the job's communicators share.
struct JobContext {
  std::shared_ptr<control::ControlPlane> plane;  ///< null in a world of one
  std::vector<Hello> roster;
  int rank = 0;  ///< of this process in the job
  std::chrono::milliseconds operation_timeout{0};
  /// What the phases took; the communicators add to it.
  std::shared_ptr<Timings> timings = std::make_shared<Timings>();
};

/// The ranks of one communicator, which operation this rank is in, and what to say when it does not end.
class CommunicatorGroup {
 public:
  /// All ranks of the job. `name` tells communicators apart in messages and must be the same on every rank.
  CommunicatorGroup(std::shared_ptr<const JobContext> job, const std::string& name);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const noexcept { return members_; }
  const JobContext& job() const noexcept { return *job_; }
  const std::string& name() const noexcept { return name_; }
  std::chrono::milliseconds timeout() const noexcept { return job_->operation_timeout; }
  /// "rank 2 (host node1)".
  std::string this_rank() const;

  /// The group of those who give the same color, ordered by (key, rank here). Collective, host side, under
  /// the deadline.
  CommunicatorGroup split(int color, int key);

  /// Every rank's numbers, by rank here. Collective, host side, under the timeout. `what` is a string
  /// literal.
  std::vector<std::vector<std::uint64_t>> tell_all(const char* what, const std::vector<std::uint64_t>& mine);

  /// This rank enters an operation of the whole group; `operation` is a string literal.
  /// @throws the job's failure, if there is one.
  void enter(const char* operation);
  /// As enter(), of what connects the ranks and so may be slower than any collective: nobody is warned of it
  /// before the usual time has passed, however short the job's own is.
  void enter_set_up(const char* operation);
  /// While the result lives this rank's program waits in the operation that it entered last, as the other
  /// ranks are told when they miss it.
  class Inside {
   public:
    explicit Inside(control::OperationState& activity)
        : activity_(activity), before_(activity.inside.exchange(true)) {}
    ~Inside() { activity_.inside = before_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    control::OperationState& activity_;
    bool before_;
  };
  Inside inside() const { return Inside(*activity_); }
  /// This rank enters sends and receives with `peers`, ranks here. Not counted: not every rank takes part.
  void enter_messages(const char* operation, std::span<const int> peers);
  /// The operations of the whole group that were entered; the same on every rank that is in the same one.
  std::uint64_t number() const noexcept { return activity_->number.load(); }
  const char* operation() const noexcept { return activity_->operation.load(); }
  observe::OperationPosition position() const noexcept { return {kept_name_, activity_->number + 1}; }
  /// True when the job has failed: check() then throws.
  bool failed() const noexcept { return job_->plane && job_->plane->failed(); }
  void check() const;
  /// To be called now and then while this rank waits under `deadline` in the operation that was entered last:
  /// warns of a stall when it is time.
  void waiting(const Deadline& deadline);
  /// The operation that was entered last did not end in `waited`.
  [[noreturn]] void stalled(std::chrono::milliseconds waited) const;
  /// Ends the job on every rank with the operation, this rank and `reason`, and throws the job's failure. Of
  /// an operation of the whole group the failure also says who is not in it.
  [[noreturn]] void broke(ErrorCode code, const std::string& reason) const;
  /// What stalled() and broke() tell the job, for a thread to which the failure that comes of it is not to be
  /// thrown. The job has a control plane.
  void report_stalled(std::chrono::milliseconds waited) const;
  void report_broken(ErrorCode code, const std::string& reason) const;

 private:
  std::string operation_with_peers() const;
  std::string broken_text(const std::string& reason) const;
  std::uint64_t number_of_all() const { return peers_.empty() ? number() : 0; }

  CommunicatorGroup(std::shared_ptr<const JobContext> job, std::string name, std::vector<int> members);

  std::shared_ptr<const JobContext> job_;
  std::string name_;
  const char* kept_name_;
  std::vector<int> members_;  // ranks in the job, by rank here
  int rank_ = 0;
  std::vector<int> peers_;  // of the messages that were entered last; none in an operation of the whole group
  std::uint64_t splits_ = 0;  // names them: every member takes part in each
  std::uint64_t tellings_ = 0;
  std::chrono::milliseconds next_warning_{0};
  std::shared_ptr<control::OperationState> activity_;
};

}  // namespace muster::detail
