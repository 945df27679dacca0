// SPDX-License-Identifier: Apache-2.0
#include "failure/reporter_check.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include "log.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// Ranks that are killed together have ended by then, and the other ranks still wait for the reporter.
constexpr milliseconds check_delay{100};
constexpr milliseconds first_answer_time{100};
// A host may be far away, or its answer get lost. The reporter is there for half a second after the loss.
constexpr milliseconds last_answer_time{250};
constexpr int last_connections = 4;

// One check for the rank that prints.
class PendingCheck {
 public:
  PendingCheck(int self, int lost, const std::vector<Hello>& roster, ReporterCheck::Query query,
               ReporterCheck::Options options)
      : self_(self), lost_(lost), roster_(roster), query_(std::move(query)), options_(options) {}

  bool this_rank_reports() {
    for (int const rank : reporter_order(roster_)) {
      if (rank == self_) return true;
      if (rank == lost_) continue;
      if (!states_.contains(rank)) states_[rank] = query_({rank}, first_answer_time, 1).front();
      if (states_[rank] == ProcessState::unknown && options_.unknown_rank_is_lost && !asked_all_)
        ask_all_hosts(rank);
      switch (states_[rank]) {
        case ProcessState::running:
          return false;
        case ProcessState::ended:
          if (options_.ended_rank_has_printed) return false;
          break;
        case ProcessState::unknown:
          if (!options_.unknown_rank_is_lost) return false;
          break;
      }
    }
    return false;
  }

 private:
  using Host = std::pair<std::string, std::string>;

  Host host_of(int rank) const {
    const Hello& hello = roster_[static_cast<std::size_t>(rank)];
    return {hello.host, hello.boot_id};
  }

  // The first rank of each host stands for the host's others if it is unknown.
  void ask_all_hosts(int first) {
    asked_all_ = true;
    std::map<Host, int> asked;
    std::vector<int> ranks;
    auto const order = reporter_order(roster_);
    for (auto at = std::find(order.begin(), order.end(), first); *at != self_; ++at)
      if (*at != lost_ && asked.emplace(host_of(*at), static_cast<int>(ranks.size())).second)
        ranks.push_back(*at);
    auto const answers = query_(ranks, last_answer_time, last_connections);
    for (std::size_t i = 0; i < ranks.size(); ++i) states_[ranks[i]] = answers[i];
    for (int const rank : order) {
      auto const at = asked.find(host_of(rank));
      if (at != asked.end() && answers[static_cast<std::size_t>(at->second)] == ProcessState::unknown)
        states_[rank] = ProcessState::unknown;
    }
  }

  int self_;
  int lost_;
  std::vector<Hello> roster_;
  ReporterCheck::Query query_;
  ReporterCheck::Options options_;
  std::map<int, ProcessState> states_;
  bool asked_all_ = false;
};

}  // namespace

void ReporterCheck::start(const Failure& failure, const std::vector<Hello>& roster, Query query,
                          Options options) {
  if (failure.lost < 0 || failure.reporter == rank_) return;
  mailbox_.begin_reporter_check();
  timer_.expires_after(check_delay);
  timer_.async_wait([this, check = PendingCheck(rank_, failure.lost, roster, std::move(query), options)](
                        const asio::error_code& error) mutable {
    if (error) return;
    bool reports = false;
    try {
      reports = check.this_rank_reports();
    } catch (const std::exception& failed) {
      log::debug("control: cannot find the rank that reports: {}", failed.what());
    }
    mailbox_.end_reporter_check(reports);
  });
}

void ReporterCheck::stop() {
  timer_.cancel();
  mailbox_.end_reporter_check(false);
}

}  // namespace muster::control
