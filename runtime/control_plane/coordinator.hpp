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
#include "failure/stall_diagnosis.hpp"
#include "failure/late_rank_query.hpp"
#include "muster/job.hpp"

namespace muster::control {

/// Rank 0's side of the control plane: holds the connections, brings the arrivals of each round together,
/// keeps the store, names who is missing at a deadline and who was lost. Every call on the io_context's
/// thread, except the constructor and port().
class Leader {
 public:
  /// Takes messages for rank 0 itself.
  using ToSelf = std::function<void(const Message&)>;

  /// `own`: rank 0's last call.
  Leader(asio::io_context& io, ToSelf to_self, std::shared_ptr<const FlightRecorder> own = nullptr);

  std::uint16_t port() const { return port_; }
  /// `leader_of`, by rank: the leader of its host.
  void open(std::vector<Hello> roster, std::vector<int> leader_of, const Key& key,
            std::chrono::milliseconds heartbeat_timeout,
            std::chrono::milliseconds stall_warning = std::chrono::milliseconds{0});

  /// A message of a rank, rank 0's included.
  void handle(int rank, const Message& message);

  /// Ends the job on every rank.
  void fail(const Failure& failure);

  /// Rank 0's last call has changed.
  void send_heartbeat() { connections_.send_heartbeat(); }

  bool everyone_left() const { return connections_.empty(); }
  void close();

 private:
  void hear(int leader, const Message& message);
  void lose(int rank, const DisconnectCause& ending);
  void lose_launcher(int rank, const std::string& launcher);
  void send(const std::vector<int>& ranks, const Message& message);
  // A rank asks or answers another.
  void pass_on(int from, Message message);
  void put(int rank, const Message& message);
  void get(int rank, const Message& message);
  void tell_clocks(int rank, const Message& message);
  void arrive(int rank, const Message& message);
  void complete(const std::string& name, GatherRound& round);
  void miss(const std::string& name, const GatherRound& round);
  void warn_of_round(const std::string& name, std::chrono::milliseconds waited);
  std::string missing_in(const GatherRound& round, std::chrono::milliseconds waited) const;
  void inquire(int rank, const Message& message);
  void conclude();
  void name_the_late();
  bool is_new_warning(const Message& message);

  asio::io_context& io_;
  ToSelf to_self_;
  Connections connections_;
  std::unique_ptr<AuthenticatingAcceptor> gate_;  // until it is open
  std::uint16_t port_;
  std::vector<Hello> roster_;
  std::vector<int> leader_of_;
  std::set<int> seen_;  // connected at least once
  KvStore store_;
  std::map<std::string, std::unique_ptr<GatherRound>> rounds_;
  std::unique_ptr<StallDiagnosis> inquiry_;
  Failure late_;  // while the late are asked
  std::unique_ptr<LateRankQuery> whereabouts_;
  std::chrono::milliseconds stall_warning_{0};
  // By communicator: the operation that was warned of, and after how long.
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>> warned_;
  std::optional<Failure> failure_;
  bool departing_ = false;  // connections that end are no longer losses
};

}  // namespace muster::control
