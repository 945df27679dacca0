// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "muster/collective_call.hpp"
#include "muster/job.hpp"
#include "muster/metrics.hpp"
#include "telemetry/operation_position.hpp"

namespace muster::observe {

using detail::OperationKind;

using detail::operation_kinds;
using detail::to_string;

/// Counters of this process's operations. A call costs a few atomic additions. Thread-safe.
class Counters {
 public:
  /// True when the time in operations is measured.
  bool timed() const noexcept { return timed_.load(std::memory_order_relaxed); }
  void measure_time() noexcept { timed_ = true; }

  /// `position.number` is the number of this operation.
  void enter(OperationKind kind, const OperationPosition& position, std::uint64_t bytes) noexcept;
  /// `nanoseconds`: time since enter().
  void leave(OperationKind kind, std::int64_t nanoseconds) noexcept;

  RankMetrics read(const Hello& self) const;

 private:
  struct Count {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> nanoseconds{0};
  };
  struct Last {
    const char* operation = "";
    OperationPosition position;
    std::uint64_t bytes = 0;
  };
  std::array<Count, operation_kinds> counts_;
  std::atomic<bool> timed_{false};
  std::atomic<int> inside_{0};
  mutable std::atomic_flag last_taken_ = ATOMIC_FLAG_INIT;
  Last last_;
};

/// The counters of this process.
Counters& counters();

/// For messages between ranks.
std::vector<std::uint8_t> encode(const RankMetrics& metrics);
/// @throws Error(ErrorCode::system)
RankMetrics decode_metrics(const std::vector<std::uint8_t>& bytes);

/// "120 operations, 480.0 MB, 1.23 s in them; last all_reduce (operation 57 on communicator 'world'), 4.0
/// MB".
std::string describe_metrics(const RankMetrics& metrics);

}  // namespace muster::observe
