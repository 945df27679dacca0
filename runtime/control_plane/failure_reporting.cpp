// SPDX-License-Identifier: Apache-2.0
// What a rank that cannot go on tells rank 0, and throws.
#include <fmt/format.h>

#include <utility>

#include "control_plane/rank_ranges.hpp"
#include "control_plane/control_plane.hpp"
#include "roster/roster.hpp"

namespace muster::control {

using std::chrono::milliseconds;

namespace {

// An operation of `members`, of a job of so many ranks, that does not end here: where is everybody?
Message stall(std::size_t ranks, const std::string& group, const std::vector<int>& members,
              std::uint64_t number, const std::string& operation, milliseconds waited) {
  return {{"is", "stalled"},
          {"group", group},
          {"members", members_to_message(members, static_cast<int>(ranks))},
          {"number", number},
          {"operation", operation},
          {"ms", waited.count()}};
}

}  // namespace

void ControlPlane::stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                    const std::string& operation, milliseconds waited) {
  check();
  report_stalled(group, members, number, operation, waited);
  inbox_.wait_for_failure(leader_grace);
  check();
  rank_0_does_not_answer(fmt::format("{} was not done after {} on {}", describe_operation(operation, number, group),
                                     text_of(waited), bootstrap::describe_rank(self())),
                         leader_grace);
}

void ControlPlane::warn_stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                         const std::string& operation, milliseconds waited) {
  auto message = stall(options_.roster.size(), group, members, number, operation, waited);
  message["warning"] = true;
  post(std::move(message));
}

void ControlPlane::broke_in(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                     const std::string& operation, ErrorCode code, const std::string& reason) {
  check();
  report_broken(group, members, number, operation, code, reason);
  inbox_.wait_for_failure(leader_grace);
  check();
  throw Error(code, describe_operation(operation, number, group) + " failed: " + reason);
}

void ControlPlane::report_stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                           const std::string& operation, milliseconds waited) {
  post(stall(options_.roster.size(), group, members, number, operation, waited));
}

void ControlPlane::report_broken(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                          const std::string& operation, ErrorCode code, const std::string& reason) {
  auto message = stall(options_.roster.size(), group, members, number, operation, milliseconds{0});
  message["code"] = static_cast<int>(code);
  message["reason"] = reason;
  post(std::move(message));
}

void ControlPlane::give_up(ErrorCode code, const std::string& text) {
  check();
  report_end(code, text);
  inbox_.wait_for_failure(leader_grace);
  check();
  throw Error(code, text);
}

void ControlPlane::report_end(ErrorCode code, const std::string& text) {
  post({{"is", "broken"}, {"code", static_cast<int>(code)}, {"speaker", rank_}, {"text", text}});
}

}  // namespace muster::control
