// SPDX-License-Identifier: Apache-2.0
#include "failure/stall_diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deadline.hpp"
#include "roster/roster.hpp"

namespace muster::control {
namespace {

using bootstrap::describe_rank;
using bootstrap::describe_ranks;

// How long the ranks have to say where they are. Their control threads answer even while their programs
// compute.
constexpr std::chrono::milliseconds inquiry_time{1000};

}  // namespace

StallDiagnosis::Place StallDiagnosis::place_in(const Message& message) {
  return {message.at("number").get<std::uint64_t>(), message.at("operation").get<std::string>(),
          message.value("inside", false), message.value("at", ""), message.value("last", "")};
}

StallDiagnosis::StallDiagnosis(asio::io_context& io, int speaker, const Message& question, std::vector<int> members,
                 std::function<void()> conclude)
    : speaker_(speaker),
      group_(question.at("group").get<std::string>()),
      where_(place_in(question)),
      waited_(Deadline(std::chrono::milliseconds(question.at("ms").get<std::int64_t>())).length()),
      warning_(question.value("warning", false)),
      reason_(question.value("reason", "")),
      code_(static_cast<ErrorCode>(std::clamp(question.value("code", static_cast<int>(ErrorCode::deadline)),
                                              0, static_cast<int>(ErrorCode::system)))),
      members_(std::move(members)),
      timer_(io) {
  timer_.expires_after(inquiry_time);
  timer_.async_wait([conclude = std::move(conclude)](const asio::error_code& error) {
    if (!error) conclude();
  });
}

std::string StallDiagnosis::beginning(const std::vector<Hello>& roster) const {
  auto const place = describe_operation(where_.operation, where_.number, group_);
  auto const rank = describe_rank(roster[static_cast<std::size_t>(speaker_)]);
  if (!reason_.empty()) return fmt::format("{} failed on {}: {}", place, rank, reason_);
  if (warning_) return fmt::format("{} waits for {} in {}", rank, text_of(waited_), place);
  return fmt::format("{} was not done after {} on {}", place, text_of(waited_), rank);
}

// The fewest first: they are likelier to be the mistaken ones.
Failure StallDiagnosis::different_operations(const std::vector<Hello>& roster,
                                      const std::map<std::string, std::vector<int>>& called) const {
  std::vector<std::pair<std::vector<int>, std::string>> parts;
  for (const auto& [operation, ranks] : called)
    if (!ranks.empty()) parts.emplace_back(ranks, operation);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  std::string text;
  for (const auto& [ranks, operation] : parts)
    text +=
        fmt::format("{}{} called {}", text.empty() ? "" : ", but ", describe_ranks(roster, ranks), operation);
  return {ErrorCode::usage, speaker_,
          fmt::format(
              "operation {} on communicator '{}': {}: all ranks must make the same calls in the same order",
              where_.number, group_, text)};
}

// As long as it does not answer it waits where it said that it does.
bool StallDiagnosis::is_over() const {
  auto const reply = replies_.find(speaker_);
  if (!warning_ || reply == replies_.end()) return false;
  const Place& there = reply->second;
  return !there.inside || (where_.number > 0 && there.number != where_.number);
}

// By one that did not come so far.
std::string StallDiagnosis::what_was_done(const Place& there) const {
  auto did = there.operation.empty() ? ", which called nothing there yet"
             : there.inside          ? ", which is still in " + there.operation + " there"
                                     : ", whose last call there was " + there.operation;
  // On another communicator, or on none.
  if (!there.last.empty() && there.last.find("'" + group_ + "'") == std::string::npos)
    did += ", " + there.last;
  return did;
}

// Of those who entered the operation: who waits in it, as far as that tells something.
std::string StallDiagnosis::where_the_others_are(const std::vector<Hello>& roster, const std::vector<int>& inside,
                                          bool all_entered, std::size_t went_on) const {
  if (where_.number == 0) {
    return all_entered
               ? "; the other rank made no matching call, or the transport between them is stuck or slow"
               : "";
  }
  if (went_on > 0 && inside.size() > 1)
    return fmt::format("; still in it: {}", describe_ranks(roster, inside));
  if (!all_entered) return "";
  return went_on > 0
             ? "; every other rank entered it and went on"
             : "; every rank entered it and none has left it: the transport between them is stuck or slow";
}

std::optional<Failure> StallDiagnosis::conclusion(const std::vector<Hello>& roster) const {
  std::map<std::string, std::vector<int>> called;  // of this number, by operation
  std::map<std::string, std::vector<int>> behind;  // by what they did last
  std::vector<int> silent;
  std::vector<int> inside;
  std::size_t went_on = 0;
  for (int member : members_) {
    auto const reply = replies_.find(member);
    if (member == speaker_) {  // its question says where it is
      called[where_.operation].push_back(member);
      inside.push_back(member);
      continue;
    }
    if (reply == replies_.end()) {
      silent.push_back(member);
      continue;
    }
    const Place& there = reply->second;
    if (there.number < where_.number) {
      behind[what_was_done(there)].push_back(member);
      continue;
    }
    bool const known = where_.number > 0 && !there.in_its_place.empty();
    called[known ? there.in_its_place : where_.operation].push_back(member);
    if (there.number == where_.number && there.inside) {
      inside.push_back(member);
    } else {
      ++went_on;
    }
  }
  if (called.size() > 1) return different_operations(roster, called);
  if (is_over()) return std::nullopt;
  auto text = beginning(roster);
  for (const auto& [did, ranks] : behind)
    text += fmt::format("; not entered by {}{}", describe_ranks(roster, ranks), did);
  if (!silent.empty()) text += fmt::format("; no answer from {}", describe_ranks(roster, silent));
  if (!reason_.empty()) return Failure{code_, speaker_, text};
  text += where_the_others_are(roster, inside, behind.empty() && silent.empty(), went_on);
  return Failure{ErrorCode::deadline, speaker_, text};
}

}  // namespace muster::control
