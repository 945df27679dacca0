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

Inquiry::Place Inquiry::place_in(const Message& message) {
  return {message.at("number").get<std::uint64_t>(), message.at("operation").get<std::string>(),
          message.value("inside", false)};
}

Inquiry::Inquiry(asio::io_context& io, int speaker, const Message& question, std::vector<int> members,
                 std::function<void()> conclude)
    : speaker_(speaker),
      group_(question.at("group").get<std::string>()),
      where_(place_in(question)),
      waited_(Deadline(std::chrono::milliseconds(question.at("ms").get<std::int64_t>())).length()),
      members_(std::move(members)),
      timer_(io) {
  timer_.expires_after(inquiry_time);
  timer_.async_wait([conclude = std::move(conclude)](const asio::error_code& error) {
    if (!error) conclude();
  });
}

Failure Inquiry::conclusion(const std::vector<Hello>& roster) const {
  auto const number = where_.number;
  std::vector<int> behind;
  std::vector<int> silent;
  std::vector<int> inside;
  std::string last;
  for (int member : members_) {
    auto const reply = replies_.find(member);
    if (reply == replies_.end()) {
      silent.push_back(member);
    } else if (reply->second.number < number) {
      if (behind.empty()) last = reply->second.operation;
      behind.push_back(member);
    } else if (reply->second.number == number && reply->second.inside) {
      inside.push_back(member);
    }
  }
  auto text = fmt::format("{} was not done after {} on {}", place_of(where_.operation, number, group_),
                          text_of(waited_), name_of_rank(roster[static_cast<std::size_t>(speaker_)]));
  if (!behind.empty()) {
    text += fmt::format("; not entered by {}", name_of_ranks(roster, behind));
    text += last.empty() ? ", which called nothing there yet"
                         : fmt::format(", whose last call there was {}", last);
  }
  if (!silent.empty()) text += fmt::format("; no answer from {}", name_of_ranks(roster, silent));
  if (number == 0 && silent.empty()) {
    text += "; the other rank made no matching call, or the transport between them is stuck";
  } else if (!inside.empty() && inside.size() + behind.size() + silent.size() < members_.size()) {
    text += fmt::format("; still in it: {}", name_of_ranks(roster, inside));
  } else if (behind.empty() && silent.empty()) {
    text += "; every rank entered it: the transport between them is stuck";
  }
  return {Fault::deadline, speaker_, text};
}

}  // namespace muster::control
