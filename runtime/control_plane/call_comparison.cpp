// SPDX-License-Identifier: Apache-2.0
#include "control_plane/call_comparison.hpp"

#include <fmt/format.h>

#include "roster/roster.hpp"

namespace muster::control {
namespace {

// Ranks may be this many operations apart, on all communicators together, before the oldest is forgotten.
constexpr std::size_t max_operations = 65536;

}  // namespace

std::optional<Failure> CallComparison::add(int rank, const protocol::CallReport& report,
                                           const std::vector<Hello>& roster) {
  auto const [at, is_first] = operations_.try_emplace({report.communicator, report.number},
                                                      RankCall{rank, report.call, report.digest});
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
  if (++first.reports >= report.ranks)
    operations_.erase(at);
  else if (operations_.size() > max_operations)
    operations_.erase(operations_.begin());
  return std::nullopt;
}

}  // namespace muster::control
