// SPDX-License-Identifier: Apache-2.0
#include "failure/ended_rank_watch.hpp"

#include <algorithm>
#include <utility>

namespace muster::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds answer_time{100}, interval{100};
// Each needs descriptors.
constexpr std::size_t most_at_once = 64;

}  // namespace

void EndedRankWatch::watch(std::vector<Hello> roster, std::vector<int> ranks, ReporterCheck::Query query) {
  roster_ = std::move(roster);
  ranks_ = std::move(ranks);
  query_ = std::move(query);
  next_ = Clock::now() + interval;
}

std::optional<Failure> EndedRankWatch::find_loss() {
  if (!query_ || Clock::now() < next_) return std::nullopt;
  std::vector<int> some;
  for (auto left = std::min(most_at_once, ranks_.size()); left > 0; --left)
    some.push_back(ranks_[asked_++ % ranks_.size()]);
  auto const states = query_(some, answer_time, 1);
  next_ = Clock::now() + interval;
  auto const ended = std::find(states.begin(), states.end(), ProcessState::ended);
  if (ended == states.end()) return std::nullopt;
  auto const rank = some[static_cast<std::size_t>(ended - states.begin())];
  return make_rank_loss(roster_[static_cast<std::size_t>(rank)], 0,
                        {"ended before it was connected to the other ranks", true});
}

void EndedRankWatch::start(std::function<void(const Failure&)> on_loss) {
  if (!query_) return;
  timer_.expires_at(next_);
  timer_.async_wait([this, on_loss = std::move(on_loss)](const asio::error_code& stopped) {
    if (stopped) return;
    if (auto const loss = find_loss()) return on_loss(*loss);
    start(on_loss);
  });
}

}  // namespace muster::control
