// SPDX-License-Identifier: Apache-2.0
#include "failure/late_rank_query.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::control {
namespace {

// Control threads reply even while their programs compute.
constexpr std::chrono::milliseconds reply_timeout{1000};
constexpr std::size_t max_reply_length = 200;
constexpr std::size_t max_ranks_listed = 4;

std::string abbreviate_ranks(const std::vector<int>& ranks) {
  auto const shown = std::min(ranks.size(), max_ranks_listed);
  auto text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                          fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace

LateRankQuery::LateRankQuery(asio::io_context& io, const std::vector<int>& queried,
                             std::function<void()> on_timeout)
    : queried_(queried.begin(), queried.end()), timer_(io) {
  timer_.expires_after(reply_timeout);
  timer_.async_wait([on_timeout = std::move(on_timeout)](const asio::error_code& error) {
    if (!error) on_timeout();
  });
}

void LateRankQuery::add_reply(int rank, const Message& reply) {
  if (queried_.contains(rank))
    replies_[rank] = reply.at("text").get<std::string>().substr(0, max_reply_length);
}

std::string LateRankQuery::text() const {
  std::map<std::string, std::vector<int>> by_reply;
  std::vector<int> unresponsive;
  for (int const rank : queried_) {
    if (auto const found = replies_.find(rank); found != replies_.end()) {
      by_reply[found->second].push_back(rank);
    } else {
      unresponsive.push_back(rank);
    }
  }
  std::string text;
  for (const auto& [reply, ranks] : by_reply)
    text += fmt::format("; {} {} {}", abbreviate_ranks(ranks), ranks.size() == 1 ? "is" : "are",
                        reply.empty() ? "in no call of Muster's" : "in " + reply);
  if (!unresponsive.empty())
    text += fmt::format("; {} {} not answer", abbreviate_ranks(unresponsive),
                        unresponsive.size() == 1 ? "does" : "do");
  return text;
}

}  // namespace muster::control
