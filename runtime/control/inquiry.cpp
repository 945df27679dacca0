// SPDX-License-Identifier: Apache-2.0
#include "control/inquiry.hpp"

#include <fmt/format.h>

#include "bootstrap/roster.hpp"
#include "deadline.hpp"

namespace muster::control {
namespace {

using bootstrap::name_of_rank;
using bootstrap::name_of_ranks;

// How long the ranks have to say where they are. Their control threads answer even while their programs
// compute.
constexpr std::chrono::milliseconds inquiry_time{1000};

}  // namespace

Inquiry::Inquiry(asio::io_context& io, int speaker, Message question, std::vector<int> members,
                 std::function<void()> conclude)
    : speaker_(speaker), question_(std::move(question)), members_(std::move(members)), timer_(io) {
  timer_.expires_after(inquiry_time);
  timer_.async_wait([conclude = std::move(conclude)](const asio::error_code& error) {
    if (!error) conclude();
  });
}

Failure Inquiry::conclusion(const std::vector<Hello>& roster) const {
  auto const number = question_.at("number").get<std::uint64_t>();
  std::vector<int> behind;
  std::vector<int> silent;
  std::string last;
  for (int member : members_) {
    auto const reply = replies_.find(member);
    if (reply == replies_.end()) {
      silent.push_back(member);
    } else if (reply->second.at("number").get<std::uint64_t>() < number) {
      if (behind.empty()) last = reply->second.at("operation").get<std::string>();
      behind.push_back(member);
    }
  }
  auto text = fmt::format("{} was not done after {} on {}",
                          place_of(question_.at("operation").get<std::string>(), number,
                                   question_.at("group").get<std::string>()),
                          text_of(std::chrono::milliseconds(question_.at("ms").get<std::int64_t>())),
                          name_of_rank(roster[static_cast<std::size_t>(speaker_)]));
  if (!behind.empty()) {
    text += fmt::format("; not entered by {}", name_of_ranks(roster, behind));
    text += last.empty() ? ", which called nothing there yet"
                         : fmt::format(", whose last call there was {}", last);
  }
  if (!silent.empty()) text += fmt::format("; no answer from {}", name_of_ranks(roster, silent));
  if (number == 0 && silent.empty()) {
    text += "; the other rank made no matching call, or the transport between them is stuck";
  } else if (behind.empty() && silent.empty()) {
    text += "; every rank entered it: the transport between them is stuck";
  }
  return {Fault::deadline, speaker_, text};
}

}  // namespace muster::control
