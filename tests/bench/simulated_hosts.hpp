// SPDX-License-Identifier: Apache-2.0
// For control_plane_scale: the hosts of a large job as rank 0 sees them.
#pragma once

#include <fmt/format.h>

#include <asio.hpp>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cbor.hpp"
#include "muster/job.hpp"
#include "transport/handshake.hpp"
#include "transport/secure_channel.hpp"

namespace muster::bench {

inline constexpr int ranks_per_host = 8;

inline std::vector<Hello> make_roster(int ranks) {
  std::vector<Hello> roster(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& hello = roster[static_cast<std::size_t>(rank)];
    hello.rank = rank;
    hello.host = fmt::format("n{:05}", rank / ranks_per_host);
  }
  return roster;
}

inline std::vector<int> find_host_leaders(int ranks) {
  std::vector<int> leaders;
  for (int rank = 0; rank < ranks; ++rank) leaders.push_back(rank - rank % ranks_per_host);
  return leaders;
}

/// Traffic at one end: whole frames, with length and authentication tag.
struct Traffic {
  std::uint64_t messages_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

/// The other ends of rank 0's connections: one for each other host's leader (TCP) and one for each rank of
/// rank 0's host (UNIX socket). Runs on the calling thread.
class SimulatedHosts {
 public:
  SimulatedHosts(asio::io_context& io, int ranks, const control::Key& key)
      : io_(io), ranks_(ranks), key_(key) {}

  /// Opens every connection and authenticates it.
  void connect(std::uint16_t port, const std::string& local_socket) {
    for (int rank = 1; rank < std::min(ranks_, ranks_per_host); ++rank)
      add(rank, control::local_endpoint(local_socket));
    for (int rank = ranks_per_host; rank < ranks_; rank += ranks_per_host)
      add(rank, control::tcp_endpoint(asio::ip::address_v4::loopback(), port));
    // As many at a time as a listening socket's backlog holds.
    for (std::size_t i = 0; i < 256; ++i) connect_next();
    run_until([this] { return connected_ == connections_.size(); });
    for (const auto& connection : connections_)
      if (connection->rank >= ranks_per_host)
        for (int rank = connection->rank + 1; rank < host_end(*connection); ++rank)
          send(*connection, encode(protocol::RankConnected{rank}));
  }

  /// Sends the message from each rank but rank 0: to rank 0, or to its host's leader, which forwards it.
  void send_from_each(const control::Message& message) {
    for (const auto& connection : connections_) {
      send(*connection, message);
      if (connection->rank < ranks_per_host) continue;
      for (int rank = connection->rank + 1; rank < host_end(*connection); ++rank) {
        send(*connection, encode(protocol::FromRank{rank, message}));
        ++inside_;
      }
    }
  }
  /// Sends a message of the last host's leader.
  void send_from_last(const control::Message& message) { send(*connections_.back(), message); }

  /// Computes, without sending, the traffic of a round in which each rank sends `message` and gets `answer`.
  Traffic compute_round_traffic(const control::Message& message, const control::Message& answer) {
    reset_traffic();
    auto const size = [](const control::Message& content) {
      return write_cbor(content).size() + frame_bytes;
    };
    auto const server_hello_bytes = size(answer);
    for (const auto& connection : connections_) {
      count_in(*connection, 1, size(message));
      if (connection->rank < ranks_per_host) {
        count_out(*connection, 1, server_hello_bytes);
        continue;
      }
      std::vector<int> ranks{connection->rank};
      for (int rank = connection->rank + 1; rank < host_end(*connection); ++rank, ++inside_) {
        count_in(*connection, 1, size(encode(protocol::FromRank{rank, message})));
        ranks.push_back(rank);
      }
      // The answer in an envelope: the empty envelope's size less its placeholder, plus the answer's.
      count_out(*connection, 1,
                size(encode(protocol::ToRanks{ranks, 0})) - 1 + server_hello_bytes - frame_bytes);
      inside_ += ranks.size() - 1;
    }
    inside_ += traffic_.messages_in + traffic_.messages_out;
    return traffic_;
  }
  void expect_answers() { answered_ = 0; }
  /// Waits for one message for each host, and for each rank of rank 0's host.
  void run_until_answered() {
    run_until([this] { return answered_ == connections_.size(); });
  }
  void close() {
    for (const auto& connection : connections_)
      if (connection->channel) connection->channel->close();
    io_.restart();
    io_.run();
  }

  void reset_traffic() { traffic_ = local_ = {}, inside_ = 0; }
  /// The traffic at rank 0.
  const Traffic& traffic() const { return traffic_; }
  /// The bytes at rank 0 without those of its own host.
  Traffic traffic_over_tcp() const {
    return {0, 0, traffic_.bytes_in - local_.bytes_in, traffic_.bytes_out - local_.bytes_out};
  }
  /// Messages between leaders and ranks on the other hosts.
  std::uint64_t messages_inside() const { return inside_; }

 private:
  struct Connection {
    Connection(asio::io_context& io, int of, control::Endpoint to)
        : rank(of), endpoint(std::move(to)), socket(io) {}
    int rank;
    control::Endpoint endpoint;
    control::Socket socket;
    control::KeyPair own;
    control::HandshakeTranscript transcript;
    std::array<std::uint8_t, control::client_hello_bytes> client_hello{};
    std::array<std::uint8_t, control::server_hello_bytes> answer{};
    control::Mac proof{};
    std::array<std::uint8_t, 1> welcome{};
    std::shared_ptr<control::SecureChannel> channel;
  };
  static constexpr std::uint64_t frame_bytes = 4 + 16;

  int host_end(const Connection& connection) const {
    return std::min(ranks_, connection.rank + ranks_per_host);
  }

  void add(int rank, const control::Endpoint& endpoint) {
    connections_.push_back(std::make_unique<Connection>(io_, rank, endpoint));
  }
  void count_in(const Connection& connection, std::uint64_t messages, std::uint64_t bytes) {
    traffic_.messages_in += messages;
    traffic_.bytes_in += bytes;
    if (connection.rank < ranks_per_host) local_.bytes_in += bytes;
  }
  void count_out(const Connection& connection, std::uint64_t messages, std::uint64_t bytes) {
    traffic_.messages_out += messages;
    traffic_.bytes_out += bytes;
    if (connection.rank < ranks_per_host) local_.bytes_out += bytes;
  }
  void send(Connection& connection, const control::Message& message) {
    count_in(connection, 1, write_cbor(message).size() + frame_bytes);
    connection.channel->send(message);
  }
  void on_message(const Connection& connection, const control::Message& message) {
    count_out(connection, 1, write_cbor(message).size() + frame_bytes);
    ++answered_;
    if (connection.rank >= ranks_per_host)
      inside_ += static_cast<std::uint64_t>(host_end(connection) - connection.rank - 1);
  }

  static void check(const asio::error_code& error, const char* what) {
    if (error) throw std::runtime_error(fmt::format("a simulated host cannot {}: {}", what, error.message()));
  }
  // The client's side of handshake.hpp.
  void connect_next() {
    if (started_ == connections_.size()) return;
    auto& connection = *connections_[started_++];
    connection.transcript.rank = static_cast<std::uint32_t>(connection.rank);
    connection.transcript.client_key = connection.own.public_key();
    connection.client_hello =
        control::make_client_hello(connection.transcript.rank, connection.transcript.client_key);
    connection.socket.async_connect(connection.endpoint, [this, &connection](const asio::error_code& error) {
      check(error, "connect");
      asio::write(connection.socket, asio::buffer(connection.client_hello));
      asio::async_read(connection.socket, asio::buffer(connection.answer),
                       [this, &connection](const asio::error_code& failed, std::size_t) {
                         check(failed, "read the answer");
                         send_proof(connection);
                       });
    });
  }
  void send_proof(Connection& connection) {
    std::copy_n(connection.answer.begin(), control::public_key_bytes,
                connection.transcript.server_key.begin());
    connection.proof = control::client_mac(proof_key_, connection.transcript);
    asio::write(connection.socket, asio::buffer(connection.proof));
    asio::async_read(connection.socket, asio::buffer(connection.welcome),
                     [this, &connection](const asio::error_code& failed, std::size_t) {
                       check(failed, "read the welcome");
                       start_channel(connection);
                     });
  }
  void start_channel(Connection& connection) {
    count_in(connection, 2, control::client_hello_bytes + control::mac_bytes);
    count_out(connection, 2, control::server_hello_bytes + 1);
    // The other ranks of the host do the same with their leader.
    if (connection.rank >= ranks_per_host)
      inside_ += 4 * static_cast<std::uint64_t>(host_end(connection) - connection.rank - 1);
    connection.channel = std::make_shared<control::SecureChannel>(
        std::move(connection.socket),
        control::client_keys(proof_key_, connection.transcript, connection.own));
    connection.channel->start(
        [this, &connection](const control::Message& message) { on_message(connection, message); },
        [](const std::string& reason) { throw std::runtime_error("rank 0 hung up: " + reason); });
    ++connected_;
    connect_next();
  }
  template <typename Done>
  void run_until(Done done) {
    auto const until = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (!done()) {
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("rank 0 does not answer everybody within 10 minutes");
      if (io_.stopped()) io_.restart();
      io_.run_one_for(std::chrono::seconds(1));
    }
  }

  asio::io_context& io_;
  int ranks_;
  control::Key key_;
  control::Key proof_key_ = control::purpose_key(key_, control::purpose::control_plane, 0);
  std::vector<std::unique_ptr<Connection>> connections_;
  std::size_t started_ = 0;
  std::size_t connected_ = 0;
  std::size_t answered_ = 0;
  Traffic traffic_;
  Traffic local_;  // the part of rank 0's own host, bytes only
  std::uint64_t inside_ = 0;
};

}  // namespace muster::bench
