// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "timer.hpp"

namespace muster::control {

/// A collective round: every member contributes a blob, then every member gets the result. The cost of a
/// contribution does not grow with the number of members.
class GatherRound {
 public:
  /// The first contribution defines the round; the job has `ranks` ranks.
  /// @throws Error(ErrorCode::system) when a member is not a rank of the job, or is listed twice.
  GatherRound(asio::io_context& io, const protocol::Contribution& first, int ranks);

  /// False when this rank is no member, contributed before, or gives another root or member list.
  bool add(int rank, protocol::Contribution contribution);
  /// The round goes on without this rank: its blob is empty unless it contributed before.
  void leave_out(int rank);
  bool is_complete() const { return arrived_ + left_out_.size() == members_.size(); }

  const std::vector<int>& members() const { return members_; }
  /// In increasing order.
  std::vector<int> missing() const { return members(true); }
  std::vector<int> arrived() const { return members(false); }
  bool has_arrived(int rank) const {
    return !awaited_[static_cast<std::size_t>(rank)] && !left_out_.contains(rank) &&
           std::find(members_.begin(), members_.end(), rank) != members_.end();
  }
  /// Not 0, and different for each round of this process.
  std::uint64_t serial() const { return serial_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  bool last() const { return last_; }
  /// The message to every member. Call once: it moves the blobs out.
  protocol::RoundResult result(const std::string& name);

  Timer timer;
  Timer warning;  ///< when the next warning is due

 private:
  std::vector<int> members(bool awaited) const;

  std::uint64_t serial_;
  protocol::Message encoded_members_;
  std::vector<int> members_;
  std::vector<bool> awaited_;  // by rank of the job
  int root_;
  bool last_;
  std::chrono::milliseconds timeout_;
  std::size_t arrived_ = 0;
  std::set<int> left_out_;
  std::map<int, protocol::Blob> blobs_;  // only those that the result contains
};

}  // namespace muster::control
