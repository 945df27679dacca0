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

#include "control/channel.hpp"
#include "control/failure.hpp"
#include "control/gate.hpp"
#include "muster/job.hpp"

namespace muster::control {

/// Rank 0's side of the control plane: holds the connections, brings the arrivals of each round together,
/// names who is missing at a deadline and who was lost. Every call on the io_context's thread, except the
/// constructor and port().
class Leader {
 public:
  /// Takes messages for rank 0 itself.
  using ToSelf = std::function<void(const Message&)>;

  Leader(asio::io_context& io, ToSelf to_self);

  std::uint16_t port() const { return gate_.port(); }
  void open(std::vector<Hello> roster, const Key& key);

  /// A message of a rank, rank 0's included.
  void handle(int rank, const Message& message);

  /// Ends the job on every rank.
  void fail(const Failure& failure);

  bool everyone_left() const { return channels_.empty(); }
  void close();

 private:
  // One collective round: everybody of `members` brings a blob, then everybody gets what it asked for.
  struct Round {
    Round(asio::io_context& io) : timer(io) {}
    std::vector<int> members;
    bool last = false;  // the job is over after this one
    int root = -1;      // the rank whose blob everybody gets; -1: all blobs
    std::map<int, std::vector<std::uint8_t>> blobs;
    std::chrono::milliseconds length{0};
    asio::steady_timer timer;
  };
  // Some rank waited too long in a communicator's operation: where is everybody?
  struct Inquiry {
    Inquiry(asio::io_context& io) : timer(io) {}
    int speaker = 0;
    Message question;
    std::vector<int> members;
    std::map<int, Message> replies;
    asio::steady_timer timer;
  };

  void admit(int rank, Socket socket, const SessionKeys& keys);
  void lose(int rank, const std::string& reason);
  void send(int rank, const Message& message);
  void arrive(int rank, const Message& message);
  void complete(const std::string& name, Round& round);
  void miss(const std::string& name, const Round& round);
  void inquire(int rank, const Message& message);
  void conclude();
  std::vector<int> members_in(const Message& message) const;

  asio::io_context& io_;
  ToSelf to_self_;
  Gate gate_;
  std::vector<Hello> roster_;
  std::map<int, std::shared_ptr<Channel>> channels_;
  std::set<int> seen_;    // connected at least once
  std::set<int> spoken_;  // sent something
  std::map<std::string, std::unique_ptr<Round>> rounds_;
  std::unique_ptr<Inquiry> inquiry_;
  std::optional<Failure> failure_;
  bool departing_ = false;  // connections that end are no longer losses
};

}  // namespace muster::control
