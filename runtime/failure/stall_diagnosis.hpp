// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "failure/failure.hpp"
#include "muster/job.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {

/// Explains an operation that takes too long or failed on one rank: queries every member's current operation.
/// Every call on the io_context's thread.
class StallDiagnosis {
 public:
  /// `report` is the message of rank `reporter`. Calls `on_timeout` when the time for replies is over.
  /// @throws nlohmann::json::exception when `report` lacks a field.
  StallDiagnosis(asio::io_context& io, int reporter, const Message& report, std::vector<int> members,
                 std::function<void()> on_timeout);

  const std::vector<int>& members() const { return members_; }
  /// True for a warning, which fails the job only when ranks are in different operations.
  bool is_warning() const { return warning_; }
  /// The query to the members.
  Message query_message() const {
    return {{"is", "where"}, {"group", group_}, {"number", stalled_at_.number}};
  }
  /// @throws nlohmann::json::exception when the reply lacks a field.
  void add_reply(int rank, const Message& reply) { replies_[rank] = parse_state(reply); }
  bool all_replied() const { return replies_.size() == members_.size(); }
  /// Names the ranks that did not enter the operation, entered another one in its place, or do not reply.
  /// Nothing when it was a warning and the reporter no longer waits.
  std::optional<Failure> diagnose(const std::vector<Hello>& roster) const;

 private:
  struct RankState {
    std::uint64_t number = 0;
    std::string operation;
    bool inside = false;
    std::string counterpart;  // of a reply: that rank's operation with the reporter's number; may be empty
    std::string last;         // of a reply: the last call on any communicator
  };
  static RankState parse_state(const Message& message);
  std::string describe_stall(const std::vector<Hello>& roster) const;
  std::string describe_last_operation(const RankState& state) const;
  std::string describe_waiting_ranks(const std::vector<Hello>& roster, const std::vector<int>& inside,
                                     bool all_entered, std::size_t left_count) const;
  bool is_resolved() const;
  Failure mismatch_failure(const std::vector<Hello>& roster,
                           const std::map<std::string, std::vector<int>>& called) const;

  int reporter_;
  std::string group_;
  RankState stalled_at_;  // the reporter's operation
  std::chrono::milliseconds waited_;
  bool warning_;
  std::string reason_;  // why the operation failed; empty when it only takes long
  ErrorCode code_;
  std::vector<int> members_;
  std::map<int, RankState> replies_;
  asio::steady_timer timer_;
};

}  // namespace muster::control
