// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control_plane/call_comparison.hpp"
#include "control_plane/clock_offset.hpp"
#include "control_plane/connections.hpp"
#include "control_plane/gather_round.hpp"
#include "control_plane/kv_store.hpp"
#include "control_plane/round_description.hpp"
#include "failure/ended_rank_watch.hpp"
#include "failure/failure.hpp"
#include "failure/rank_state_collector.hpp"
#include "failure/stall_diagnosis.hpp"
#include "failure/stall_log.hpp"
#include "muster/job.hpp"
#include "protocol/messages.hpp"

namespace muster::control {

/// Rank 0's side of the control plane: holds the connections, collects the contributions of each round, keeps
/// the store, and names missing and lost ranks. Every call on the io_context's thread, but the constructor
/// and open(), which come before.
class Coordinator {
 public:
  /// Called with each message for rank 0 itself.
  using DeliverToSelf = std::function<void(const Message&)>;

  /// `host_leaders`, by rank: its host leader. `recorder`: rank 0's last call.
  Coordinator(asio::io_context& io, DeliverToSelf deliver_to_self, std::vector<Hello> roster,
              std::vector<int> host_leaders, std::chrono::milliseconds heartbeat_timeout,
              std::chrono::milliseconds stall_warning = std::chrono::milliseconds{0},
              std::shared_ptr<const FlightRecorder> recorder = nullptr);

  /// Accepts the leaders of other hosts on `acceptor`, and the ranks of this host, if it has others, on
  /// `listener`.
  void open(std::unique_ptr<AuthenticatingAcceptor> acceptor, LocalListener* listener, const Key& key,
            const Key& host_key);
  void admit(int rank, std::shared_ptr<Channel> channel) { connections_.admit(rank, std::move(channel)); }

  /// Handles a message of any rank, rank 0 included.
  void handle(int rank, const Message& message);

  /// Fails the job on every rank.
  void fail(const Failure& failure);

  /// The loss of these ranks does not fail the job. It fails all the same when the lost rank leads a rank of
  /// its host that is not one of them.
  void survive_loss_of(const std::vector<int>& ranks) { survivable_.insert(ranks.begin(), ranks.end()); }

  /// Fails the job when a rank ends before it has connected. Call before the io_context runs.
  void watch_ended_ranks(ReporterCheck::Query query);
  /// When all ranks are connected.
  void stop_ended_rank_watch() { ended_ranks_.stop(); }

  /// For a change of rank 0's last call.
  void send_heartbeat() { connections_.send_heartbeat(); }

  /// By the rank that sent its host's clock. Also on another thread, once no more of them come.
  const std::map<int, HostClockOffset>& host_clocks() const { return host_clocks_; }

  void when_all_disconnected(std::function<void()> callback) { connections_.when_empty(std::move(callback)); }
  void close();

 private:
  void on_message(int leader, const Message& message);
  void on_disconnect(int rank, const DisconnectCause& cause);
  std::vector<int> ranks_lost_with(int rank) const;
  bool survives_loss_of(int rank) const;
  void go_on_without(int rank, const std::string& what);
  void on_launcher_exit(int rank, const std::string& launcher);
  void send(const std::vector<int>& ranks, const Message& message);
  template <typename RpcMessage>
  void forward(int from, RpcMessage message);
  void fail_full_store(int rank, const std::string& name);
  void get(int rank, const protocol::Get& request);
  void add_contribution(int rank, protocol::Contribution contribution);
  void complete_round(const std::string& name, GatherRound& round);
  void on_round_timeout(const std::string& name, const GatherRound& round);
  void fail_late_round(const std::string& text, const std::vector<int>& arrived,
                       const std::set<int>& unexplained, const std::set<int>& queried,
                       const RankStates& states);
  std::vector<int> with_connected(std::set<int> ranks) const;
  void fail_wait(Failure failure, const std::vector<int>& waiting, const RankStates& states);
  void schedule_round_warning(const std::string& name, std::chrono::milliseconds waited);
  void register_handlers();
  void diagnose_stall(int rank, const protocol::StalledOperation& report);
  void query_stall(int rank, const protocol::StalledOperation& report, const std::vector<int>& members);
  void query_mismatch(const StallDiagnosis& diagnosis, const std::vector<int>& members,
                      const protocol::StalledOperation& report);

  asio::io_context& io_;
  DeliverToSelf deliver_to_self_;
  protocol::Dispatcher<int> handlers_;  // of messages of a rank
  Connections connections_;
  std::vector<Hello> roster_;
  std::vector<int> host_leaders_;
  std::set<int> ever_connected_;              // also those that disconnected since
  std::map<int, std::int64_t> connected_at_;  // by host leader: CLOCK_REALTIME here, in nanoseconds
  std::map<int, HostClockOffset> host_clocks_;
  KvStore store_;
  CallComparison calls_;
  Rounds rounds_;
  RankStateCollector query_;
  bool query_is_warning_ = false;  // query_ only explains a warning: a failure's query replaces it
  std::chrono::milliseconds stall_warning_{0};
  StallLog stall_log_;
  EndedRankWatch ended_ranks_{io_};
  std::set<int> survivable_;
  std::set<int> lost_;  // without a failure
  std::optional<Failure> failure_;
  bool shutting_down_ = false;  // a disconnect is no longer a loss
};

}  // namespace muster::control
