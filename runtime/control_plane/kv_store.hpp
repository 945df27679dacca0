// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "timer.hpp"

namespace muster::control {

/// Limits of the job's store.
inline constexpr std::size_t max_key_bytes = 256;
inline constexpr std::size_t max_value_bytes = 64u << 10;
inline constexpr std::size_t max_store_bytes = 16u << 20;
/// Requests of one rank that may wait for a value at the same time.
inline constexpr std::size_t max_waiters = 1024;

/// The job's key-value store on rank 0: small values, and the requests that wait for a value. Every call on
/// the io_context's thread.
class KvStore {
 public:
  using Respond = std::function<void(int rank, std::uint64_t id, const protocol::Value& value)>;

  KvStore(asio::io_context& io, Respond respond) : io_(io), respond_(std::move(respond)) {}

  /// False when the store now exceeds max_store_bytes.
  bool put(const std::string& name, protocol::Blob value);
  /// Responds to `rank` as soon as there is a value, or without a value at its deadline. False when the rank
  /// already has max_waiters waiting requests.
  bool get(int rank, const protocol::Get& request);
  /// Changes or examines a value, and responds to `rank` at once. False as put(). The response to
  /// - add: adds `value`, an integer as decimal text, to the one that is stored, 0 without one: the sum. No
  ///   value when one of them is no 64-bit integer, or the sum is none;
  /// - append: `value` follows the stored bytes. No value when they would exceed max_value_bytes;
  /// - compare_set: stores `value` if `expected` is stored, or if nothing is stored and `expected` is empty:
  ///   what is stored then. No value when nothing is;
  /// - contains: a value, which is empty, if one is stored;
  /// - erase: the same, and then none is stored;
  /// - count: the number of names that begin with `name`, as decimal text.
  bool apply(int rank, const protocol::StoreOperation& request);
  /// Drops all waiting requests without a response.
  void cancel_waiters() {
    waiters_.clear();
    waiter_counts_.clear();
  }

 private:
  struct Waiter {
    explicit Waiter(asio::io_context& io) : timer(io) {}
    int rank = 0;
    std::uint64_t id = 0;
    Timer timer;
  };

  protocol::Value change(const protocol::StoreOperation& request);
  bool is_full() const { return bytes_ + values_.size() * max_key_bytes > max_store_bytes; }

  asio::io_context& io_;
  Respond respond_;
  std::map<std::string, protocol::Blob> values_;
  std::size_t bytes_ = 0;
  std::multimap<std::string, std::shared_ptr<Waiter>> waiters_;
  std::map<int, std::size_t> waiter_counts_;  // by rank
};

}  // namespace muster::control
