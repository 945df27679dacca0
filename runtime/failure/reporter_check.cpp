// SPDX-License-Identifier: Apache-2.0
#include "failure/reporter_check.hpp"

#include <utility>

namespace muster::control {
namespace {

// Ranks that are killed together have ended by then, and the other ranks still wait for the reporter.
constexpr std::chrono::milliseconds check_delay{100};

}  // namespace

void ReporterCheck::start(const Failure& failure, const std::vector<Hello>& roster, ExitQuery has_ended) {
  if (failure.lost < 0 || failure.reporter == rank_) return;
  timer_.expires_after(check_delay);
  timer_.async_wait([this, order = reporter_order(roster), lost = failure.lost, reporter = failure.reporter,
                     has_ended = std::move(has_ended)](const asio::error_code& error) {
    auto const is_gone = [&](int rank) { return rank == lost || has_ended(rank); };
    if (error || !is_gone(reporter)) return;
    for (int const rank : order) {
      if (rank == rank_) return mailbox_.become_reporter();
      if (!is_gone(rank)) return;
    }
  });
}

}  // namespace muster::control
