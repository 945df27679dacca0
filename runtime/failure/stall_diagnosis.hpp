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

/// Some rank waited too long in a communicator's operation: where is everybody? Every call on the
/// io_context's thread.
class StallDiagnosis {
 public:
  /// `question` is what rank `speaker` said; `conclude` is called when the members' time to answer is over.
  /// @throws nlohmann::json::exception when it lacks something.
  StallDiagnosis(asio::io_context& io, int speaker, const Message& question, std::vector<int> members,
          std::function<void()> conclude);

  const std::vector<int>& members() const { return members_; }
  /// Nothing ends yet.
  bool is_warning() const { return warning_; }
  /// What is to be asked of them.
  Message to_ask() const { return {{"is", "where"}, {"group", group_}, {"number", where_.number}}; }
  /// @throws nlohmann::json::exception when the reply lacks something.
  void hear(int rank, const Message& reply) { replies_[rank] = place_in(reply); }
  bool complete() const { return replies_.size() == members_.size(); }
  /// Who did not enter the operation, entered another one in its place, or does not answer. Nothing when it
  /// was a warning and the speaker does not wait any longer.
  std::optional<Failure> conclusion(const std::vector<Hello>& roster) const;

 private:
  struct Place {
    std::uint64_t number = 0;
    std::string operation;
    bool inside = false;
    std::string in_its_place;  // of a reply: the operation that has the speaker's number there; may be empty
    std::string last;          // of a reply: the last call of all
  };
  static Place place_in(const Message& message);
  std::string beginning(const std::vector<Hello>& roster) const;
  std::string what_was_done(const Place& there) const;
  std::string where_the_others_are(const std::vector<Hello>& roster, const std::vector<int>& inside,
                                   bool all_entered, std::size_t went_on) const;
  bool is_over() const;
  Failure different_operations(const std::vector<Hello>& roster,
                               const std::map<std::string, std::vector<int>>& called) const;

  int speaker_;
  std::string group_;
  Place where_;  // where the speaker waits
  std::chrono::milliseconds waited_;
  bool warning_;
  std::string reason_;  // why it failed there; empty when it only takes long
  ErrorCode code_;
  std::vector<int> members_;
  std::map<int, Place> replies_;
  asio::steady_timer timer_;
};

}  // namespace muster::control
