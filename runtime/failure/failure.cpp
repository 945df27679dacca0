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

int reporter_when_rank0_lost(const std::vector<Hello>& roster) {
  const Hello& lost = roster.front();
  auto const elsewhere = std::find_if(roster.begin(), roster.end(), [&](const Hello& hello) {
    return hello.host != lost.host || hello.boot_id != lost.boot_id;
  });
  return elsewhere == roster.end() ? 1 : elsewhere->rank;
}

}  // namespace muster::control
