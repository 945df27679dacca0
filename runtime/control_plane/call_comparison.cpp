// SPDX-License-Identifier: Apache-2.0
#include "control_plane/call_comparison.hpp"

#include <fmt/format.h>

#include "roster/roster.hpp"

namespace muster::control {
namespace {

// Ranks may be this many operations apart, on all communicators together, before the oldest is forgotten.
constexpr std::size_t max_operations = 65536;

bool has_counts(const protocol::CallReport& report) {
  auto const ranks = static_cast<std::size_t>(report.ranks);
  return report.send_counts.size() == ranks && report.recv_counts.size() == ranks && report.rank >= 0 &&
         report.rank < report.ranks;
}

// The failure when the receiver expects other counts than the sender sends.
std::optional<Failure> compare_counts(const std::pair<int, protocol::CallReport>& sender,
                                      const std::pair<int, protocol::CallReport>& receiver,
                                      const std::vector<Hello>& roster) {
  auto const& [from, sent] = sender;
  auto const& [to, expected] = receiver;
  auto const count = sent.send_counts[static_cast<std::size_t>(expected.rank)];
  auto const expected_count = expected.recv_counts[static_cast<std::size_t>(sent.rank)];
  if (count == expected_count) return std::nullopt;
  auto const name = [&](int r) { return bootstrap::describe_rank(roster[static_cast<std::size_t>(r)]); };
  return Failure{
      ErrorCode::usage, to,
      fmt::format("operation {} on communicator '{}', {}: {} sends {} elements to {}, whose "
                  "recv_counts has {}",
                  sent.number, sent.communicator, sent.call, name(from), count, name(to), expected_count)};
}

}  // namespace

std::optional<Failure> CallComparison::add(int rank, const protocol::CallReport& report,
                                           const std::vector<Hello>& roster) {
  auto const [at, is_first] = operations_.try_emplace({report.communicator, report.number},
                                                      RankCall{rank, report.call, report.digest, next_age_});
  if (is_first) by_age_.emplace(next_age_++, at);
  auto& first = at->second;
  if (first.call != report.call) {
    auto const name = [&](int r) { return bootstrap::describe_rank(roster[static_cast<std::size_t>(r)]); };
    return Failure{ErrorCode::usage, rank,
                   fmt::format("operation {} on communicator '{}': {} called {}, but {} called {}: all ranks "
                               "must make the same calls in the same order",
                               report.number, report.communicator, name(rank), report.call, name(first.rank),
                               first.call)};
  }
  if (first.digest != report.digest)
    return Failure{
        ErrorCode::usage, rank,
        fmt::format("communicator '{}': before operation {}, ranks made different calls: all ranks must "
                    "make the same calls in the same order (MUSTER_CHECK=calls finds the first)",
                    report.communicator, report.number)};
  if (has_counts(report)) {
    std::pair const mine{rank, report};
    for (const auto& other : first.with_counts) {
      if (auto failure = compare_counts(mine, other, roster)) return failure;
      if (auto failure = compare_counts(other, mine, roster)) return failure;
    }
    first.with_counts.push_back(mine);
  }
  if (++first.reports >= report.ranks)
    forget(at);
  else if (operations_.size() > max_operations)
    forget(by_age_.begin()->second);
  return std::nullopt;
}

void CallComparison::forget(CallMap::iterator operation) {
  by_age_.erase(operation->second.age);
  operations_.erase(operation);
}

}  // namespace muster::control
