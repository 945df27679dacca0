// SPDX-License-Identifier: Apache-2.0
#include "failure/ended_rank_watch.hpp"

#include <algorithm>
#include <utility>

namespace muster::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds answer_time{100};
// Each rank asks all others, so a large job asks more rarely.
constexpr milliseconds interval_a_rank{10}, max_interval{5000};

}  // namespace

void EndedRankWatch::watch(std::vector<Hello> roster, int self, ReporterCheck::Query query) {
  roster_ = std::move(roster);
  query_ = std::move(query);
  for (const Hello& hello : roster_)
    if (hello.rank != self) others_.push_back(hello.rank);
  next_ = Clock::now() + interval();
}

milliseconds EndedRankWatch::interval() const {
  return std::min(max_interval, interval_a_rank * static_cast<int>(roster_.size()));
}

std::optional<Failure> EndedRankWatch::find_loss() {
  if (!query_ || Clock::now() < next_) return std::nullopt;
  auto const states = query_(others_, answer_time, 1);
  next_ = Clock::now() + interval();
  auto const ended = std::find(states.begin(), states.end(), ProcessState::ended);
  if (ended == states.end()) return std::nullopt;
  auto const rank = others_[static_cast<std::size_t>(ended - states.begin())];
  return make_rank_loss(roster_[static_cast<std::size_t>(rank)], 0,
                        {"ended before it was connected to the other ranks again", true});
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
