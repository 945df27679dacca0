// SPDX-License-Identifier: Apache-2.0
#include "failure/reporter_check.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// Ranks that are killed together have ended by then, and the other ranks still wait for the reporter.
constexpr milliseconds check_delay{100};
constexpr milliseconds first_answer_time{100};
// A host may be far away, or its answer get lost. The reporter is there for half a second after the loss.
constexpr milliseconds last_answer_time{250};
// More hosts than these are not waited for.
constexpr std::size_t max_unknown_hosts = 3;

// One check for the rank that prints.
struct PendingCheck {
  int self;
  int lost;
  std::vector<Hello> roster;
  ReporterCheck::Query query;
  ReporterCheck::Options options;

  // The rank that prints; nothing when a host does not answer and the check is not the last.
  std::optional<int> find(bool last) const {
    std::vector<std::pair<std::string, std::string>> unknown_hosts;
    for (int const rank : reporter_order(roster)) {
      if (rank == self) return rank;
      const Hello& hello = roster[static_cast<std::size_t>(rank)];
      std::pair const host(hello.host, hello.boot_id);
      if (rank == lost || std::find(unknown_hosts.begin(), unknown_hosts.end(), host) != unknown_hosts.end())
        continue;
      auto const state = query(rank, last ? last_answer_time : first_answer_time);
      if (state == ProcessState::running) return rank;
      if (state == ProcessState::ended) {
        if (options.ended_rank_has_printed) return rank;
        continue;
      }
      if (!options.unknown_rank_is_lost || unknown_hosts.size() == max_unknown_hosts) return rank;
      if (!last) return std::nullopt;
      unknown_hosts.push_back(host);
    }
    return std::nullopt;
  }
};

}  // namespace

void ReporterCheck::start(const Failure& failure, const std::vector<Hello>& roster, Query query,
                          Options options) {
  if (failure.lost < 0 || failure.reporter == rank_) return;
  timer_.expires_after(check_delay);
  timer_.async_wait([this, check = PendingCheck{rank_, failure.lost, roster, std::move(query), options}](
                        const asio::error_code& error) {
    if (error) return;
    auto reporter = check.find(false);
    if (!reporter) {
      mailbox_.expect_reporter(true);
      reporter = check.find(true);
      mailbox_.expect_reporter(false);
    }
    if (reporter == rank_) mailbox_.become_reporter();
  });
}

}  // namespace muster::control
