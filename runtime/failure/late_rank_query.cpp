// SPDX-License-Identifier: Apache-2.0
#include "failure/late_rank_query.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::control {
namespace {

// Their control threads answer even while their programs compute.
constexpr std::chrono::milliseconds answer_time{1000};
constexpr std::size_t longest_reply = 200;
constexpr std::size_t ranks_named = 4;

std::string name_of(const std::vector<int>& ranks) {
  auto const shown = std::min(ranks.size(), ranks_named);
  auto text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                          fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace

LateRankQuery::LateRankQuery(asio::io_context& io, const std::vector<int>& asked, std::function<void()> done)
    : asked_(asked.begin(), asked.end()), timer_(io) {
  timer_.expires_after(answer_time);
  timer_.async_wait([done = std::move(done)](const asio::error_code& error) {
    if (!error) done();
  });
}

void LateRankQuery::hear(int rank, const Message& reply) {
  if (asked_.contains(rank)) replies_[rank] = reply.at("text").get<std::string>().substr(0, longest_reply);
}

std::string LateRankQuery::text() const {
  std::map<std::string, std::vector<int>> by_reply;
  std::vector<int> silent;
  for (int const rank : asked_) {
    if (auto const found = replies_.find(rank); found != replies_.end()) {
      by_reply[found->second].push_back(rank);
    } else {
      silent.push_back(rank);
    }
  }
  std::string text;
  for (const auto& [reply, ranks] : by_reply)
    text += fmt::format("; {} {} {}", name_of(ranks), ranks.size() == 1 ? "is" : "are",
                        reply.empty() ? "in no call of Muster's" : "in " + reply);
  if (!silent.empty())
    text += fmt::format("; {} {} not answer", name_of(silent), silent.size() == 1 ? "does" : "do");
  return text;
}

}  // namespace muster::control
