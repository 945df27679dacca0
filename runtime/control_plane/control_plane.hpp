// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control_plane/clock_offset.hpp"
#include "control_plane/mailbox.hpp"
#include "control_plane/coordinator.hpp"
#include "control_plane/rpc.hpp"
#include "control_plane/relay.hpp"
#include "deadline.hpp"
#include "failure/operation_tracker.hpp"
#include "muster/job.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {

/// What every rank of a job knows before its control plane starts.
struct ControlPlaneOptions {
  std::vector<Hello> roster;
  std::vector<int> leader_of;  ///< by rank: the leader of its host; empty: every rank its own
  std::chrono::milliseconds heartbeat_timeout{
      10'000};                                 ///< a process that says nothing for so long counts as lost
  std::chrono::milliseconds stall_warning{0};  ///< 0: nobody is warned of an operation that does not end
  /// A process whose program does not hear of the job's failure for so long is ended; 0: never.
  std::chrono::milliseconds abort_grace{0};
};

/// A tree of small host messages: the ranks of a host are connected to its leader over a UNIX socket, the
/// leaders to rank 0 over TCP. One thread of its own per rank, which wakes for messages and to show that it
/// lives, four times in each `heartbeat_timeout`. A failure that
/// any rank meets ends the plane on all of them: every later call throws it. Calls are thread-safe.
class ControlPlane {
 public:
  /// Rank 0's, before anybody can come in: port() is known from here on.
  static std::shared_ptr<ControlPlane> listen(const Key& key);
  std::uint16_t port() const;
  const Key& key() const { return key_; }
  /// Lets the ranks of the roster in.
  void lead(ControlPlaneOptions options);

  /// Another rank's: connects to its host's leader, or, as that leader, to rank 0 at one of its addresses,
  /// trying until the deadline.
  /// @throws Error(ErrorCode::deadline), with the last reason.
  static std::shared_ptr<ControlPlane> follow(int rank, ControlPlaneOptions options,
                                       const std::vector<std::string>& addresses, std::uint16_t port,
                                       const Key& key, const Deadline& deadline);

  int rank() const noexcept { return rank_; }

  /// As abandon().
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  /// Collective over `members` (global ranks, ascending or not, the same on each): every member's blob, in
  /// the order of `members`. `given_up`, set from another thread before wake(), ends this rank's wait.
  /// @throws Error(ErrorCode::deadline) naming who did not come, or the failure of the job; ErrorCode::usage
  /// when given up.
  std::vector<Blob> gather(const std::string& name, const std::vector<int>& members, const Blob& mine,
                           std::chrono::milliseconds wait, const std::atomic<bool>* given_up = nullptr);
  /// The blob of `root`, a global rank.
  Blob broadcast(const std::string& name, const std::vector<int>& members, int root, const Blob& mine,
                 std::chrono::milliseconds wait, const std::atomic<bool>* given_up = nullptr);
  void wake() { inbox_.wake(); }
  /// Of all ranks.
  void barrier(const std::string& name, std::chrono::milliseconds wait);

  /// Keeps a small value for all ranks under a name; the last one put counts. At most max_key_bytes and
  /// max_value_bytes, max_store_bytes in all.
  /// @throws Error(ErrorCode::usage), the failure of the job.
  void put(const std::string& name, const Blob& value);
  /// Waits until somebody put it; nothing at the deadline.
  std::optional<Blob> get(const std::string& name, std::chrono::milliseconds wait);

  /// Rank 0's clocks at the moment at which its control thread saw the question.
  /// @throws Error: deadline, or the failure of the job.
  ClockReading clocks_of_rank_0(std::chrono::milliseconds wait);

  /// From here on the control plane's thread answers other ranks' questions about `topic` with `answerer`,
  /// whatever this rank's program does; an empty function ends that.
  void answer(const std::string& topic, RpcTable::Answerer answerer);
  /// Asks all of `ranks` at once. Nothing for those that have no answer or give it too late. Asks survivors
  /// too when the job has failed, and never fails it.
  std::vector<std::optional<Blob>> ask_ranks(const std::vector<int>& ranks, const std::string& topic,
                                             const Blob& question, std::chrono::milliseconds wait);

  /// True once the job has failed; cheap enough for waiting loops.
  bool failed() const noexcept { return inbox_.failed(); }
  /// As Mailbox::check().
  void check() const { inbox_.check(); }
  std::optional<Failure> failure() const { return inbox_.failure(); }

  /// `call` is called by the first call here that would throw a lost rank, on its thread and before it
  /// throws. The process is ended when that has not come to its end `wait` after the loss.
  void on_loss(Mailbox::OnLoss call, std::chrono::milliseconds wait);
  /// Somebody is to be called then, and was not yet.
  bool has_on_loss() const { return inbox_.has_on_loss(); }
  /// When this process ends the job has failed: it is what started this rank, and ends nobody any more.
  void watch_launcher(ProcessHandle launcher, const std::string& name);
  /// That process has ended.
  bool orphaned() const noexcept { return orphaned_; }
  /// What this process does, for whoever looks for it when it was lost: a string literal.
  void enter_phase(const char* phase);

  /// Where this rank is in the communicator `group`, from now on and while the result lives.
  std::shared_ptr<OperationState> follow_activity(const std::string& group) { return activities_.follow(group); }
  /// This rank waited in vain in an operation of `group`: asks where every member is and throws what comes of
  /// it. `number` is 0 for a message between two ranks, which says nothing about where the others should be.
  [[noreturn]] void stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                            const std::string& operation, std::chrono::milliseconds waited);
  /// The same before anything ends: rank 0 says in one line for the job where everybody is. Only when ranks
  /// are in different operations, which never end, the job fails.
  void warn_stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                    const std::string& operation, std::chrono::milliseconds waited);
  /// What stalled() and broke_in() tell rank 0, for a thread to which the job's failure is not to be thrown.
  void report_stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                      const std::string& operation, std::chrono::milliseconds waited);
  void report_broken(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                     const std::string& operation, ErrorCode code, const std::string& reason);
  /// What give_up() tells.
  void report_end(ErrorCode code, const std::string& text);
  std::chrono::milliseconds stall_warning() const { return options_.stall_warning; }
  /// An operation of `group` failed here for `reason`: as stalled(), where the others are may be why.
  [[noreturn]] void broke_in(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                             const std::string& operation, ErrorCode code, const std::string& reason);

  /// This rank cannot go on: ends the job on every rank and throws the job's failure, which is this one
  /// unless another came first. This rank speaks then.
  [[noreturn]] void give_up(ErrorCode code, const std::string& text);

  /// The job's last barrier: from here on a connection that ends is no loss.
  void last_barrier(const std::string& name, std::chrono::milliseconds wait);
  /// After the last barrier: ends connections, leaders when their ranks have.
  void leave();
  /// Ends connections at once, after what was sent: the other ranks take this for a loss.
  void abandon() noexcept;
  /// Tells the others that this rank ends for a reason of its own, which its program says, and abandons.
  void abandon_for_own_reason() noexcept;

 private:
  // Rank 0 keeps the time of a round and names who is missing. Only when it says nothing for this much longer
  // is it silent itself.
  static constexpr std::chrono::milliseconds leader_grace{5000};

  explicit ControlPlane(int rank);

  std::vector<Blob> round(const std::string& name, const std::vector<int>* members, int root,
                          const Blob& mine, std::chrono::milliseconds wait, bool last = false,
                          const std::atomic<bool>* given_up = nullptr);
  Message ask(Message question, const std::string& what, std::chrono::milliseconds wait);
  [[noreturn]] void rank_0_does_not_answer(const std::string& what, std::chrono::milliseconds waited);
  void start_thread();
  void run();
  void broke(const std::string& reason) noexcept;
  void post(Message message);
  void receive(const Message& message);
  void hear_leader(const Message& message);
  void lose_leader(const std::string& reason);
  void lose_rank_0(const DisconnectCause& ending);
  void fail(const Failure& failure);
  void end_unattended();
  int leader() const { return options_.leader_of[static_cast<std::size_t>(rank_)]; }
  const Hello& self() const { return options_.roster[static_cast<std::size_t>(rank_)]; }
  std::vector<int> ranks_led() const;

  int rank_;
  Key key_{};
  ControlPlaneOptions options_;
  OperationTracker activities_;
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;  // while the thread runs
  std::unique_ptr<Leader> leader_;                                                  // on rank 0
  std::unique_ptr<Relay> relay_;                                                    // on other hosts' leaders
  std::shared_ptr<SecureChannel> channel_;  // to the leader, not on rank 0
  std::thread thread_;
  Mailbox inbox_;
  RpcTable rank_questions_;
  std::atomic<std::chrono::milliseconds> on_loss_time_{std::chrono::milliseconds{0}};
  asio::steady_timer unattended_{io_};
  ProcessHandle launcher_;
  std::atomic<bool> orphaned_{false};
  asio::posix::stream_descriptor launcher_end_{io_};
};

}  // namespace muster::control
