// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control_plane/clock_offset.hpp"
#include "control_plane/control_plane_options.hpp"
#include "control_plane/control_thread.hpp"
#include "control_plane/coordinator.hpp"
#include "control_plane/relay.hpp"
#include "control_plane/rpc.hpp"
#include "deadline.hpp"
#include "failure/launcher_watch.hpp"
#include "failure/lost_ranks.hpp"
#include "failure/mailbox.hpp"
#include "failure/operation_tracker.hpp"
#include "failure/process_watchdog.hpp"
#include "failure/reporter_check.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/channel.hpp"

namespace muster::control {

/// A tree for small host messages: the ranks of a host connect to its leader over a UNIX socket, the leaders
/// connect to rank 0 over TCP. Each rank has one control thread, which wakes for messages and sends four
/// heartbeats in each `heartbeat_timeout`. A failure on any rank ends the control plane on all ranks: every
/// later call throws that failure. Calls are thread-safe.
class ControlPlane : public std::enable_shared_from_this<ControlPlane> {
 public:
  /// Rank 0's control plane. It listens, so port() is known, but accepts nobody before start_coordinator().
  static std::shared_ptr<ControlPlane> listen(const Key& key);
  std::uint16_t port() const { return port_; }
  const Key& key() const { return key_; }
  /// Accepts the ranks of the roster.
  void start_coordinator(ControlPlaneOptions options);

  /// When all ranks are connected.
  void stop_ended_rank_watch() {
    asio::post(thread_.io(), [this] {
      if (coordinator_) coordinator_->stop_ended_rank_watch();
    });
  }

  /// Another rank's control plane. A host leader connects to rank 0 at one of its addresses, another rank to
  /// its host leader. Retries until the deadline. `key`: for host leaders, the others use options.host_key.
  /// @throws Error(ErrorCode::deadline) with the error of the last attempt; EndedRankError
  static std::shared_ptr<ControlPlane> connect(int rank, ControlPlaneOptions options,
                                               const std::vector<std::string>& addresses, std::uint16_t port,
                                               const Key& key, const Deadline& deadline);

  /// The control plane of a job of one rank, without connections.
  static std::shared_ptr<ControlPlane> alone(ControlPlaneOptions options);

  /// The control plane of one rank of a simulated job. `to_leader`: its connection to rank 0 or to its host
  /// leader; null on rank 0.
  static std::shared_ptr<ControlPlane> simulate(int rank, ControlPlaneOptions options,
                                                std::shared_ptr<Channel> to_leader);
  /// Adds the connection of a rank to a simulated leader. Call on the control thread.
  void admit(int rank, std::shared_ptr<Channel> channel);

  int rank() const noexcept { return rank_; }

  /// As abort_connections().
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  /// Collective over `members` (global ranks in any order, the same list on each). Returns every member's
  /// blob, in the order of `members`. To end this rank's wait from another thread, set `interrupted`, then
  /// call wake_waiters().
  /// @throws Error: deadline, naming the missing ranks; usage when interrupted; the failure of the job.
  std::vector<Blob> gather(const std::string& name, const std::vector<int>& members, const Blob& mine,
                           std::chrono::milliseconds wait, const std::atomic<bool>* interrupted = nullptr) {
    return run_round(name, &members, -1, mine, wait, false, interrupted);
  }
  /// Collective over `members`. Returns the blob of `root`, a global rank.
  Blob broadcast(const std::string& name, const std::vector<int>& members, int root, const Blob& mine,
                 std::chrono::milliseconds wait, const std::atomic<bool>* interrupted = nullptr);
  void wake_waiters() { mailbox_.wake_waiters(); }
  /// Collective over all ranks. All ranks get rank 0's empty blob: the result's size does not depend on the
  /// number of ranks.
  void barrier(const std::string& name, std::chrono::milliseconds wait,
               const std::atomic<bool>* interrupted = nullptr) {
    run_round(name, nullptr, 0, {}, wait, false, interrupted);
  }

  /// Stores a small value under a name, readable by all ranks; a later put() replaces it. Limits:
  /// max_key_bytes, max_value_bytes, and max_store_bytes for the whole store.
  /// @throws Error: usage, or the failure of the job.
  void put(const std::string& name, const Blob& value);
  /// Waits until a rank puts the value. Returns nothing at the deadline.
  std::optional<Blob> get(const std::string& name, std::chrono::milliseconds wait);
  /// An atomic action on the store, as KvStore::apply() describes it. Returns the response.
  /// @throws Error: deadline (rank 0 does not answer), or the failure of the job.
  std::optional<Blob> apply(protocol::StoreOperation operation);

  /// Rank 0's clocks when its control thread handled the request.
  /// @throws Error: deadline, or the failure of the job.
  ClockReading read_rank0_clocks(std::chrono::milliseconds wait);

  /// On a host leader: sends rank 0 this host's clock. Call right after connect().
  void report_clock() { post(encode(protocol::HostClock{read_clocks().system})); }
  /// On rank 0, after a barrier that followed every report_clock().
  const std::map<int, HostClockOffset>& host_clocks() const { return coordinator_->host_clocks(); }

  /// Answers other ranks' requests on `topic` with `handler`, on the control thread: the program need not
  /// call anything. An empty function removes the handler.
  void register_handler(const std::string& topic, RpcTable::Handler handler) {
    rpc_.register_handler(topic, std::move(handler));
  }
  /// Sends a request to all of `ranks` at once. The result has no value for a rank without an answer or with
  /// a late one. Also reaches the survivors of a failed job, and never fails the job.
  std::vector<std::optional<Blob>> query_ranks(const std::vector<int>& ranks, const std::string& topic,
                                               const Blob& request, std::chrono::milliseconds wait);

  /// True once the job has failed; cheap enough for waiting loops.
  bool failed() const noexcept { return mailbox_.failed(); }
  /// True after the final barrier, leave() or an abort: calls that need rank 0 then throw ErrorCode::usage.
  bool has_left() const { return mailbox_.leaving(); }
  /// As Mailbox::check().
  void check() const { mailbox_.check(); }
  std::optional<Failure> failure() const { return mailbox_.failure(); }
  /// Calls `callback` once, on the control thread: when the job fails, or now if it has failed.
  void on_failure(std::function<void()> callback);
  /// While the watchdog is paused, a failure neither ends this process nor is printed on the control thread:
  /// the program will observe it, or drop this control plane.
  void pause_watchdog(bool paused) { watchdog_.pause(paused); }
  /// True once the failure was thrown to the program.
  bool failure_observed() const noexcept { return mailbox_.failure_observed(); }

  /// The first call here that would throw ErrorCode::lost_rank calls `callback` before it throws, on its own
  /// thread. The process ends when `callback` has not returned within `wait` (or abort_grace, if longer) of
  /// the loss; with abort_grace 0 within `wait` of its begin, unless that is 0, too.
  void on_loss(Mailbox::OnLoss callback, std::chrono::milliseconds wait);
  /// True while an on_loss() callback is set and was not called.
  bool has_on_loss() const { return mailbox_.has_on_loss(); }
  /// Fails the job when `launcher` ends: that process started this rank, and can no longer end it.
  void watch_launcher(ProcessHandle launcher, const std::string& name);
  /// True when that process has ended.
  bool orphaned() const noexcept { return orphaned_; }
  /// Records what this process does, for the report of its loss. `phase`: a string literal.
  void enter_phase(const char* phase);

  /// Marks this rank's program as waiting in `call`, a call of all ranks, while the result lives. The reports
  /// of missing ranks have it.
  std::unique_ptr<OperationTracker::JobCall> enter_call(const std::string& call) {
    return std::make_unique<OperationTracker::JobCall>(operation_tracker_, call);
  }
  /// To be called when the program makes a call of a communicator.
  void note_caller() { operation_tracker_.note_caller(); }
  /// Tracks this rank's operations in the communicator `group` while the result lives.
  std::shared_ptr<OperationState> register_communicator(const std::string& group) {
    return operation_tracker_.register_communicator(group);
  }
  /// Reports to rank 0 that an operation of `members` takes too long or failed here. Rank 0 then queries
  /// every member: a rank in another operation may be the cause. It fails the job; for a warning, it prints
  /// one line, and fails the job only when ranks are in different operations, because those never complete.
  void report_operation(const std::vector<int>& members, protocol::StalledOperation report);
  /// Reports it, and throws the job's failure.
  [[noreturn]] void fail_operation(const std::vector<int>& members, const protocol::StalledOperation& report);
  /// Reports a call to rank 0, which fails the job when another rank's call of this number differs.
  void report_call(const protocol::CallReport& report) { post(encode(report)); }
  /// Sends the report of fail_job() without throwing.
  void report_failure(ErrorCode code, const std::string& text) {
    post(encode(protocol::FailureReport{code, text}));
  }
  std::chrono::milliseconds stall_warning() const { return options_.stall_warning; }

  /// Collective over all ranks. From now on the loss of one of `ranks` is no failure of the job: gathers go
  /// on with an empty blob for it. Not for rank 0.
  void survive_loss_of(const std::vector<int>& ranks, std::chrono::milliseconds wait) {
    survives_losses_ = true;
    asio::post(thread_.io(), [this, ranks] {
      if (coordinator_) coordinator_->survive_loss_of(ranks);
    });
    barrier("survive_loss_of", wait);
  }
  /// True once this rank has called survive_loss_of().
  bool survives_losses() const noexcept { return survives_losses_; }
  /// Those of them that are lost, in increasing order.
  std::vector<int> lost_ranks() const { return lost_.list(); }

  /// Fails the job on every rank and throws its failure: this one, reported by this rank, unless another
  /// failure came first.
  [[noreturn]] void fail_job(ErrorCode code, const std::string& text);

  /// The job's last barrier. After it a disconnect is no loss.
  void final_barrier(const std::string& name, std::chrono::milliseconds wait) {
    run_round(name, nullptr, 0, {}, wait, true);
  }
  /// Closes the connections after final_barrier(). A leader first waits for its ranks to disconnect.
  void leave();
  /// Closes the connections as soon as queued messages are sent. The other ranks take this for a loss. On a
  /// network that loses packets exit() waits until they have all messages, heartbeat_timeout at most.
  void abort_connections() noexcept;
  /// Reports to the other ranks that this rank ends because of its own error, which its program prints; then
  /// calls abort_connections().
  void abort_with_local_error() noexcept { abort_because(""); }
  /// The same for another `reason`, which some rank prints.
  void abort_because(const std::string& reason) noexcept;

 private:
  // Rank 0 keeps each round's deadline and names the missing ranks. A rank waits this much longer before it
  // takes rank 0 itself for unresponsive.
  static constexpr std::chrono::milliseconds coordinator_grace{5000};

  explicit ControlPlane(int rank);

  // Throws the job's failure, or that this rank has left the job: nothing would answer it.
  void require_open(const std::string& call) const;
  std::vector<Blob> run_round(const std::string& name, const std::vector<int>* members, int root,
                              const Blob& mine, std::chrono::milliseconds wait, bool last = false,
                              const std::atomic<bool>* interrupted = nullptr);
  template <typename Body, typename Request>
  Body query_coordinator(Request request, const std::string& what, std::chrono::milliseconds wait);
  [[noreturn]] void fail_coordinator_unresponsive(const std::string& what, std::chrono::milliseconds waited);
  void set_options(ControlPlaneOptions options);
  void start_relay();
  void start_channel(std::shared_ptr<Channel> channel);
  void on_thread_error(const std::string& reason) noexcept;
  void register_handlers();
  void post(Message message);
  void on_leader_message(const Message& message);
  void on_leader_disconnect(const std::string& reason);
  void fail(const Failure& failure, ReporterCheck::Options check);
  int host_leader() const { return options_.host_leaders[static_cast<std::size_t>(rank_)]; }
  const Hello& self() const { return options_.roster[static_cast<std::size_t>(rank_)]; }

  int rank_;
  Key key_{};
  ControlPlaneOptions options_;
  OperationTracker operation_tracker_;
  ControlThread thread_{[this](const std::string& reason) { on_thread_error(reason); }};
  std::unique_ptr<Coordinator> coordinator_;          // on rank 0
  std::unique_ptr<AuthenticatingAcceptor> acceptor_;  // on rank 0, until start_coordinator()
  std::uint16_t port_ = 0;
  std::unique_ptr<Relay> relay_;      // on the leaders of other hosts
  std::shared_ptr<Channel> channel_;  // to the leader, not on rank 0
  Mailbox mailbox_;
  RpcTable rpc_;
  protocol::Dispatcher<> handlers_;  // of messages of rank 0
  ProcessWatchdog watchdog_{thread_.io(), mailbox_, rank_};
  ReporterCheck reporter_check_{thread_.io(), mailbox_, rank_};
  LauncherWatch launcher_watch_{thread_.io()};
  std::function<void()> on_failure_;
  std::atomic<bool> orphaned_{false};
  std::atomic<bool> survives_losses_{false};
  LostRanks lost_;
};

}  // namespace muster::control
