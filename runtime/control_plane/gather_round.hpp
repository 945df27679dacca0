// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transport/secure_channel.hpp"

namespace muster::control {

/// What a rank says when it comes to a collective round.
struct Arrival {
  std::string name;
  Message members;  ///< as members_to_message() writes them
  int root = -1;    ///< the rank whose blob everybody gets; -1: all blobs
  std::chrono::milliseconds wait{0};
  bool last = false;  ///< the job is over after this one
  std::vector<std::uint8_t> blob;
};

Message to_message(const Arrival& arrival);
/// @throws nlohmann::json::exception for anything else.
Arrival arrival_from(const Message& message);

/// A collective round: every member brings a blob, then everybody gets what it asked for. Its cost for each
/// arrival does not grow with the members.
class GatherRound {
 public:
  /// As the first that comes says; the job has `ranks` ranks.
  /// @throws Error(ErrorCode::system) when there is no such group.
  GatherRound(asio::io_context& io, const Arrival& first, int ranks);

  /// False when this rank does not belong, came before, or has another idea of the round.
  bool take(int rank, Arrival arrival);
  bool complete() const { return arrived_ == members_.size(); }

  const std::vector<int>& members() const { return members_; }
  std::vector<int> missing() const;
  /// The lowest that came; -1 when nobody did.
  int first_there() const { return first_there_; }
  std::chrono::milliseconds length() const { return length_; }
  bool last() const { return last_; }
  /// What everybody gets. Once.
  Message result(const std::string& name);

  asio::steady_timer timer;
  asio::steady_timer warning;  ///< of a stall

 private:
  Message runs_;
  std::vector<int> members_;
  std::vector<bool> awaited_;  // by rank of the job
  int root_;
  bool last_;
  std::chrono::milliseconds length_;
  std::size_t arrived_ = 0;
  int first_there_ = -1;
  std::map<int, std::vector<std::uint8_t>> blobs_;  // those that are wanted
};

}  // namespace muster::control
