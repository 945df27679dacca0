// SPDX-License-Identifier: Apache-2.0
#include "telemetry/counters.hpp"

#include <fmt/format.h>
#include <sched.h>

#include "cbor.hpp"
#include "transport/flight_recorder.hpp"

namespace muster::observe {

Counters& counters() {
  static auto* const instance = new Counters;  // threads may outlive static objects
  return *instance;
}

void Counters::enter(OperationKind kind, const OperationPosition& position, std::uint64_t bytes) noexcept {
  auto& count = counts_[static_cast<std::size_t>(kind)];
  count.calls.fetch_add(1, std::memory_order_relaxed);
  count.bytes.fetch_add(bytes, std::memory_order_relaxed);
  inside_.fetch_add(1, std::memory_order_relaxed);
  // Of two simultaneous operations either may be recorded as the last, so that none waits for the other.
  if (last_taken_.test_and_set(std::memory_order_acquire)) return;
  last_ = {to_string(kind), position, bytes};
  last_taken_.clear(std::memory_order_release);
}

void Counters::leave(OperationKind kind, std::int64_t nanoseconds) noexcept {
  inside_.fetch_sub(1, std::memory_order_relaxed);
  if (nanoseconds <= 0) return;
  counts_[static_cast<std::size_t>(kind)].nanoseconds.fetch_add(static_cast<std::uint64_t>(nanoseconds),
                                                                std::memory_order_relaxed);
}

RankMetrics Counters::read(const Hello& self) const {
  RankMetrics metrics;
  metrics.rank = self.rank;
  metrics.host = self.host;
  metrics.gpu = self.gpu;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    auto const& count = counts_[i];
    metrics.operations.push_back({to_string(static_cast<OperationKind>(i)), count.calls.load(),
                                  count.bytes.load(), static_cast<double>(count.nanoseconds.load()) / 1e9});
  }
  while (last_taken_.test_and_set(std::memory_order_acquire)) sched_yield();
  Last const last = last_;
  last_taken_.clear(std::memory_order_release);
  metrics.last = {last.operation, last.position.communicator, last.position.number, last.bytes,
                  inside_.load() == 0};
  return metrics;
}

std::vector<std::uint8_t> encode(const RankMetrics& metrics) {
  nlohmann::json operations = nlohmann::json::array();
  for (const auto& one : metrics.operations)
    operations.push_back({one.operation, one.calls, one.bytes, one.seconds});
  const auto& last = metrics.last;
  return write_cbor({{"rank", metrics.rank},
                     {"host", metrics.host},
                     {"gpu", metrics.gpu},
                     {"operations", std::move(operations)},
                     {"last", {last.operation, last.communicator, last.number, last.bytes, last.over}}});
}

RankMetrics decode_metrics(const std::vector<std::uint8_t>& bytes) {
  auto const read = read_cbor(bytes, "a rank's metrics");
  try {
    RankMetrics metrics;
    metrics.rank = read.at("rank").get<int>();
    metrics.host = read.at("host").get<std::string>();
    metrics.gpu = read.at("gpu").get<std::string>();
    for (const auto& one : read.at("operations")) {
      metrics.operations.push_back({one.at(0).get<std::string>(), one.at(1).get<std::uint64_t>(),
                                    one.at(2).get<std::uint64_t>(), one.at(3).get<double>()});
    }
    const auto& last = read.at("last");
    metrics.last = {last.at(0).get<std::string>(), last.at(1).get<std::string>(),
                    last.at(2).get<std::uint64_t>(), last.at(3).get<std::uint64_t>(), last.at(4).get<bool>()};
    return metrics;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::system, "a rank's metrics are not what a rank of this version writes");
  }
}

std::string describe_metrics(const RankMetrics& metrics) {
  std::uint64_t calls = 0;
  double bytes = 0;
  double seconds = 0;
  for (const auto& one : metrics.operations) {
    calls += one.calls;
    bytes += static_cast<double>(one.bytes);
    seconds += one.seconds;
  }
  auto text = fmt::format("{} operations, {:.1f} MB, {:.3f} s in them", calls, bytes / 1e6, seconds);
  const auto& last = metrics.last;
  if (last.operation.empty()) return text;
  return fmt::format("{}; last {}, {} bytes{}", text,
                     control::describe_operation(last.operation, last.number, last.communicator), last.bytes,
                     last.over ? "" : ", not over");
}

}  // namespace muster::observe
