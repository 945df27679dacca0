// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/export.hpp"

namespace muster {

namespace control {
class ControlPlane;
}

/// The job's key-value store, on rank 0: small values (addresses, ports, counters) that all ranks read and
/// change. Keys are texts, values are bytes. A call that makes the store larger than 16 MiB, where each key
/// counts as 256 bytes, fails the job. Thread-safe. Every call
/// @throws Error: usage (a key or value that is too long, the job was left), the failure of the job
/// (lost_rank names the rank), or deadline when rank 0 does not answer.
class MUSTER_EXPORT Store {
 public:
  static constexpr std::size_t max_key_bytes = 250;
  static constexpr std::size_t max_value_bytes = 64u << 10;

  /// Stores a value; it replaces an earlier one. Does not wait for rank 0.
  void put(const std::string& key, std::string_view value);
  /// Waits until a rank puts the value.
  /// @throws Error: deadline when no rank does so within `timeout`; as soon as a rank is lost, lost_rank.
  std::string get(const std::string& key, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// Adds to a counter and returns the sum. The counter is 0 at first, and its value is decimal text.
  /// @throws Error: usage when the value is not an integer of 64 bits, or the sum is none.
  std::int64_t add(const std::string& key, std::int64_t amount);
  /// Adds bytes at the end of the value.
  void append(const std::string& key, std::string_view value);
  /// Stores `desired` if the value is `expected`, or if there is none and `expected` is empty. Returns the
  /// value that is stored then, if any.
  std::optional<std::string> compare_set(const std::string& key, std::string_view expected,
                                         std::string_view desired);
  /// True when there is a value.
  bool check(const std::string& key);
  /// Removes a value. True when there was one.
  bool delete_key(const std::string& key);
  std::size_t num_keys();

 private:
  friend class Job;
  explicit Store(std::shared_ptr<control::ControlPlane> plane);
  std::shared_ptr<control::ControlPlane> plane_;
};

}  // namespace muster
