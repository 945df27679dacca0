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
using protocol::RankState;

}  // namespace

std::string StallDiagnosis::describe_stall(const std::vector<Hello>& roster) const {
  auto const operation = describe_operation(report_.operation, report_.number, report_.communicator);
  auto const rank = describe_rank(roster[static_cast<std::size_t>(reporter_)]);
  if (!report_.reason.empty()) return fmt::format("{} failed on {}: {}", operation, rank, report_.reason);
  if (report_.warning)
    return fmt::format("{} waits for {} in {}", rank, format_duration(report_.waited), operation);
  return fmt::format("{} did not complete within {} on {}", operation, format_duration(report_.waited), rank);
}

// By call: the ranks that made it as the reported operation. A rank that does not know made the reporter's.
std::map<std::string, std::vector<int>> StallDiagnosis::calls(const RankStates& states) const {
  auto const queried = [&](int member) {
    auto const reply = states.find(member);
    return reply == states.end() || report_.number == 0 ? "" : reply->second.queried;
  };
  auto own = queried(reporter_);
  if (own.empty()) own = report_.call.empty() ? report_.operation : report_.call;
  std::map<std::string, std::vector<int>> calls;
  for (int const member : members_) {
    auto const reply = states.find(member);
    bool const entered = reply != states.end() && reply->second.number >= report_.number;
    if (member != reporter_ && !entered) continue;
    auto const call = queried(member);
    calls[call.empty() ? own : call].push_back(member);
  }
  return calls;
}

Failure StallDiagnosis::mismatch(const std::vector<Hello>& roster, const RankStates& states) const {
  std::vector<std::pair<std::vector<int>, std::string>> parts;
  for (const auto& [call, ranks] : calls(states)) parts.emplace_back(ranks, call);
  // The smallest group comes first: its ranks are more likely wrong.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  std::string text;
  for (const auto& [ranks, call] : parts)
    text += fmt::format("{}{} called {}", text.empty() ? "" : ", but ", describe_ranks(roster, ranks), call);
  if (parts.size() == 1)  // their arguments are not known, or no longer
    text = fmt::format(
        "ranks called {} with different arguments, or made different calls before "
        "(MUSTER_CHECK=calls finds the first)",
        parts.front().second);
  return {ErrorCode::usage, reporter_,
          fmt::format(
              "operation {} on communicator '{}': {}: all ranks must make the same calls in the same order",
              report_.number, report_.communicator, text)};
}

std::optional<std::uint64_t> StallDiagnosis::first_mismatch(const RankStates& states) const {
  std::map<std::uint64_t, std::uint64_t> known;  // digests by the number of the operation
  std::optional<std::uint64_t> first;
  for (int const member : members_) {
    auto const reply = states.find(member);
    if (reply == states.end()) continue;
    auto number = std::min(report_.number, reply->second.number);
    for (auto const digest : reply->second.digests) {
      auto const [at, is_new] = known.emplace(number, digest);
      if (!is_new && at->second != digest) first = std::min(first.value_or(number), number);
      --number;
    }
  }
  return first;
}

// Until the reporter replies, it counts as waiting.
bool StallDiagnosis::is_resolved(const RankStates& states) const {
  auto const reply = states.find(reporter_);
  if (!report_.warning || reply == states.end()) return false;
  const RankState& state = reply->second;
  return !state.inside || (report_.number > 0 && state.number != report_.number);
}

// Describes a rank that has not reached the operation.
std::string StallDiagnosis::describe_last_operation(const RankState& state) const {
  auto did = state.operation.empty() ? ", which called nothing there yet"
             : state.inside          ? ", which is still in " + state.operation + " there"
                                     : ", whose last call there was " + state.operation;
  if (!state.inside && !state.current_wait.empty())
    return did + ", now in " + state.current_wait.substr(0, max_wait_length);
  // The last call was on another communicator, or on none.
  if (!state.last_call.empty() && state.last_call.find("'" + report_.communicator + "'") == std::string::npos)
    did += ", " + state.last_call;
  return did;
}

// Describes the ranks that entered the operation and still wait in it, where that helps.
std::string StallDiagnosis::describe_waiting_ranks(const std::vector<Hello>& roster,
                                                   const std::vector<int>& inside, bool all_entered,
                                                   std::size_t left_count) const {
  if (report_.number == 0) {
    return all_entered
               ? "; the other rank made no matching call, or the transport between them is stuck or slow"
               : "";
  }
  if (left_count > 0 && inside.size() > 1)
    return fmt::format("; still in it: {}", describe_ranks(roster, inside));
  if (!all_entered) return "";
  return left_count > 0
             ? "; every other rank entered it and went on"
             : "; every rank entered it and none has left it: the transport between them is stuck or slow";
}

std::vector<int> StallDiagnosis::find_behind(const RankStates& states, const std::set<int>& ranks) const {
  std::vector<int> behind;
  for (int const member : members_) {
    auto const reply = states.find(member);
    if (ranks.contains(member) && reply != states.end() && reply->second.number < report_.number)
      behind.push_back(member);
  }
  return behind;
}

std::set<int> StallDiagnosis::find_missing(const RankStates& states) const {
  std::set<int> missing;
  for (int const member : members_) {
    auto const reply = states.find(member);
    if (member != reporter_ && (reply == states.end() || reply->second.number < report_.number))
      missing.insert(member);
  }
  return missing;
}

std::vector<int> StallDiagnosis::find_waiting(const RankStates& states) const {
  if (report_.number == 0) return {reporter_};  // a message: the numbers are of other operations
  std::set<int> waiting{reporter_};
  for (int const member : members_) {
    auto const reply = states.find(member);
    if (reply != states.end() && reply->second.number == report_.number && reply->second.inside)
      waiting.insert(member);
  }
  return {waiting.begin(), waiting.end()};
}

std::optional<Failure> StallDiagnosis::diagnose(const std::vector<Hello>& roster,
                                                const RankStates& states) const {
  if (first_mismatch(states) || calls(states).size() > 1) return mismatch(roster, states);
  std::map<std::string, std::vector<int>> behind;  // ranks by their last operation
  std::vector<int> unresponsive;
  std::vector<int> inside;
  std::size_t left_count = 0;
  for (int member : members_) {
    auto const reply = states.find(member);
    if (member == reporter_) {  // its report has its state
      inside.push_back(member);
      continue;
    }
    if (reply == states.end()) {
      unresponsive.push_back(member);
      continue;
    }
    const RankState& state = reply->second;
    if (state.number < report_.number) {
      behind[describe_last_operation(state)].push_back(member);
      continue;
    }
    if (state.number == report_.number && state.inside) {
      inside.push_back(member);
    } else {
      ++left_count;
    }
  }
  if (is_resolved(states)) return std::nullopt;
  auto text = describe_stall(roster);
  for (const auto& [did, ranks] : behind)
    text += fmt::format("; not entered by {}{}", describe_ranks(roster, ranks), did);
  if (!unresponsive.empty()) text += fmt::format("; no answer from {}", describe_ranks(roster, unresponsive));
  if (!report_.reason.empty()) return Failure{report_.code, reporter_, text};
  text += describe_waiting_ranks(roster, inside, behind.empty() && unresponsive.empty(), left_count);
  return Failure{ErrorCode::deadline, reporter_, text};
}

}  // namespace muster::control
