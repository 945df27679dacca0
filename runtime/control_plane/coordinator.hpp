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

#include "control_plane/connections.hpp"
#include "control_plane/gather_round.hpp"
#include "control_plane/kv_store.hpp"
#include "failure/failure.hpp"
#include "failure/late_rank_query.hpp"
#include "failure/stall_diagnosis.hpp"
#include "muster/job.hpp"

namespace muster::control {

/// Rank 0's side of the control plane: holds the connections, collects the contributions of each round, keeps
/// the store, and names missing and lost ranks. Every call on the io_context's thread, except the constructor
/// and port().
class Coordinator {
 public:
  /// Called with each message for rank 0 itself.
  using DeliverToSelf = std::function<void(const Message&)>;

  /// `recorder`: rank 0's last call.
  Coordinator(asio::io_context& io, DeliverToSelf deliver_to_self,
              std::shared_ptr<const FlightRecorder> recorder = nullptr);

  std::uint16_t port() const { return port_; }
  /// Accepts the ranks. `host_leaders`, by rank: its host leader.
  void open(std::vector<Hello> roster, std::vector<int> host_leaders, const Key& key,
            std::chrono::milliseconds heartbeat_timeout,
            std::chrono::milliseconds stall_warning = std::chrono::milliseconds{0});

  /// Handles a message of any rank, rank 0 included.
  void handle(int rank, const Message& message);

  /// Fails the job on every rank.
  void fail(const Failure& failure);

  /// For a change of rank 0's last call.
  void send_heartbeat() { connections_.send_heartbeat(); }

  bool all_disconnected() const { return connections_.empty(); }
  void close();

 private:
  void on_message(int leader, const Message& message);
  void on_disconnect(int rank, const DisconnectCause& cause);
  void on_launcher_exit(int rank, const std::string& launcher);
  void send(const std::vector<int>& ranks, const Message& message);
  // Forwards a request or a response from one rank to another.
  void forward(int from, Message message);
  void put(int rank, const Message& message);
  void get(int rank, const Message& message);
  void send_clocks(int rank, const Message& message);
  void add_contribution(int rank, const Message& message);
  void complete_round(const std::string& name, GatherRound& round);
  void on_round_timeout(const std::string& name, const GatherRound& round);
  void schedule_round_warning(const std::string& name, std::chrono::milliseconds waited);
  std::string describe_missing(const GatherRound& round, std::chrono::milliseconds waited) const;
  void start_stall_diagnosis(int rank, const Message& message);
  void finish_stall_diagnosis();
  void report_late_ranks();
  bool is_new_warning(const Message& message);

  asio::io_context& io_;
  DeliverToSelf deliver_to_self_;
  Connections connections_;
  std::unique_ptr<AuthenticatingAcceptor> acceptor_;  // until open()
  std::uint16_t port_;
  std::vector<Hello> roster_;
  std::vector<int> host_leaders_;
  std::set<int> ever_connected_;  // also those that disconnected since
  KvStore store_;
  std::map<std::string, std::unique_ptr<GatherRound>> rounds_;
  std::unique_ptr<StallDiagnosis> stall_diagnosis_;
  Failure timeout_failure_;  // while late_rank_query_ runs
  std::unique_ptr<LateRankQuery> late_rank_query_;
  std::chrono::milliseconds stall_warning_{0};
  // By communicator: operation number and waiting time (ms) of the last warning.
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>> last_warnings_;
  std::optional<Failure> failure_;
  bool shutting_down_ = false;  // a disconnect is no longer a loss
};

}  // namespace muster::control
