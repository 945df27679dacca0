// SPDX-License-Identifier: Apache-2.0
#include "failure/rank_state_collector.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace muster::control {
namespace {

// Control threads reply even while their programs compute.
constexpr std::chrono::milliseconds reply_timeout{1000};
constexpr std::size_t max_ranks_listed = 4;
constexpr std::size_t max_waiting = 1024;

std::string abbreviate_ranks(const std::vector<int>& ranks) {
  auto const shown = std::min(ranks.size(), max_ranks_listed);
  auto text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                          fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace

void RankStateCollector::start(const std::vector<int>& ranks, protocol::RankStateQuery query,
                               OnDone on_done) {
  auto const id = ++id_;
  ranks_ = {ranks.begin(), ranks.end()};
  states_.clear();
  on_done_ = std::move(on_done);
  timer_.expires_after(reply_timeout);
  timer_.async_wait([this, id](const asio::error_code& error) {
    if (!error && running() && id == id_) finish();
  });
  query.id = id;
  send_(ranks, encode(query));
}

void RankStateCollector::add_reply(int rank, const protocol::RankState& state) {
  if (!running() || state.id != id_ || !ranks_.contains(rank)) return;
  states_[rank] = state;
  if (states_.size() == ranks_.size()) finish();
}

// `on_done` may start the next query.
void RankStateCollector::finish() {
  auto const on_done = std::exchange(on_done_, nullptr);
  timer_.cancel();
  on_done(std::exchange(states_, {}));
  run_waiting();
}

void RankStateCollector::when_idle(std::function<void()> query) {
  if (waiting_.size() < max_waiting) waiting_.push_back(std::move(query));
  run_waiting();
}

void RankStateCollector::run_waiting() {
  while (!running() && !waiting_.empty()) {
    auto const query = std::move(waiting_.front());
    waiting_.pop_front();
    query();
  }
}

void RankStateCollector::cancel() {
  on_done_ = nullptr;
  waiting_.clear();
  timer_.cancel();
}

std::string describe_current_waits(const std::vector<int>& ranks, const RankStates& states) {
  std::map<std::string, std::vector<int>> by_wait;
  std::vector<int> unresponsive;
  for (int const rank : ranks) {
    if (auto const found = states.find(rank); found != states.end()) {
      by_wait[found->second.current_wait.substr(0, max_wait_length)].push_back(rank);
    } else {
      unresponsive.push_back(rank);
    }
  }
  std::string text;
  for (const auto& [wait, waiting] : by_wait)
    text += fmt::format("; {} {} {}", abbreviate_ranks(waiting), waiting.size() == 1 ? "is" : "are",
                        wait.empty() ? "in no call of Muster's" : "in " + wait);
  if (!unresponsive.empty())
    text += fmt::format("; {} {} not answer", abbreviate_ranks(unresponsive),
                        unresponsive.size() == 1 ? "does" : "do");
  return text;
}

}  // namespace muster::control
