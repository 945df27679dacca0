// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/secure_channel.hpp"

namespace muster::control {

/// Limits of the job's store.
inline constexpr std::size_t max_key_bytes = 256;
inline constexpr std::size_t max_value_bytes = 64u << 10;
inline constexpr std::size_t max_store_bytes = 16u << 20;
/// Of one rank's that wait for a value.
inline constexpr std::size_t max_questions = 1024;

/// The job's store as rank 0 keeps it: small values under names, and the questions of ranks that ask for what
/// nobody has put yet. Every call on the io_context's thread.
class KvStore {
 public:
  using Send = std::function<void(int rank, const Message& message)>;

  KvStore(asio::io_context& io, Send send) : io_(io), send_(std::move(send)) {}

  /// False when the store holds more than it may by now.
  bool put(const std::string& name, std::vector<std::uint8_t> value);
  /// Answers `rank` as soon as there is a value, or, with none, after `wait`. False when more of the rank's
  /// wait than may.
  bool get(int rank, const std::string& name, std::uint64_t id, std::chrono::milliseconds wait);
  /// Nobody waits any longer.
  void drop_questions() {
    questions_.clear();
    waiting_.clear();
  }

 private:
  struct Question {
    Question(asio::io_context& io) : timer(io) {}
    int rank = 0;
    std::uint64_t id = 0;
    asio::steady_timer timer;
  };

  void answer(const Question& question, const std::vector<std::uint8_t>* value);

  asio::io_context& io_;
  Send send_;
  std::map<std::string, std::vector<std::uint8_t>> values_;
  std::size_t bytes_ = 0;
  std::multimap<std::string, std::shared_ptr<Question>> questions_;
  std::map<int, std::size_t> waiting_;  // questions by rank
};

}  // namespace muster::control
