// SPDX-License-Identifier: Apache-2.0
#include "failure/failure.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "roster/roster.hpp"

namespace muster::control {

Failure make_rank_loss(const Hello& lost, int reporter, const DisconnectCause& cause) {
  return {ErrorCode::lost_rank, reporter,
          fmt::format("{}, pid {}, {}", bootstrap::describe_rank(lost), lost.pid, cause.text), lost.rank,
          cause.confirmed_dead};
}

std::vector<int> reporter_order(const std::vector<Hello>& roster) {
  const Hello& rank0 = roster.front();
  std::vector<int> order;
  for (const auto& hello : roster) order.push_back(hello.rank);
  std::stable_partition(order.begin() + 1, order.end(), [&](int rank) {
    const Hello& hello = roster[static_cast<std::size_t>(rank)];
    return hello.host != rank0.host || hello.boot_id != rank0.boot_id;
  });
  return order;
}

int reporter_when_rank0_lost(const std::vector<Hello>& roster) { return reporter_order(roster).at(1); }

}  // namespace muster::control
