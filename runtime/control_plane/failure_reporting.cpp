// SPDX-License-Identifier: Apache-2.0
// Reports of a rank that cannot continue: sent to rank 0, and thrown here.
#include <fmt/format.h>

#include <utility>

#include "control_plane/control_plane.hpp"
#include "control_plane/rank_ranges.hpp"
#include "roster/roster.hpp"

namespace muster::control {

using std::chrono::milliseconds;

namespace {

// Reports to rank 0 that an operation of `members` stalls here; the job has `ranks` ranks.
Message make_stalled_message(std::size_t ranks, const std::string& group, const std::vector<int>& members,
                             std::uint64_t number, const std::string& operation, milliseconds waited) {
  return {{"is", "stalled"},
          {"group", group},
          {"members", encode_ranks(members, static_cast<int>(ranks))},
          {"number", number},
          {"operation", operation},
          {"ms", waited.count()}};
}

}  // namespace

void ControlPlane::fail_stalled(const std::string& group, const std::vector<int>& members,
                                std::uint64_t number, const std::string& operation, milliseconds waited) {
  check();
  report_stalled(group, members, number, operation, waited);
  mailbox_.wait_for_failure(coordinator_grace);
  check();
  fail_coordinator_unresponsive(
      fmt::format("{} did not complete within {} on {}", describe_operation(operation, number, group),
                  format_duration(waited), bootstrap::describe_rank(self())),
      coordinator_grace);
}

void ControlPlane::warn_stalled(const std::string& group, const std::vector<int>& members,
                                std::uint64_t number, const std::string& operation, milliseconds waited) {
  auto message = make_stalled_message(options_.roster.size(), group, members, number, operation, waited);
  message["warning"] = true;
  post(std::move(message));
}

void ControlPlane::fail_operation(const std::string& group, const std::vector<int>& members,
                                  std::uint64_t number, const std::string& operation, ErrorCode code,
                                  const std::string& reason) {
  check();
  report_failed_operation(group, members, number, operation, code, reason);
  mailbox_.wait_for_failure(coordinator_grace);
  check();
  throw Error(code, describe_operation(operation, number, group) + " failed: " + reason);
}

void ControlPlane::report_stalled(const std::string& group, const std::vector<int>& members,
                                  std::uint64_t number, const std::string& operation, milliseconds waited) {
  post(make_stalled_message(options_.roster.size(), group, members, number, operation, waited));
}

void ControlPlane::report_failed_operation(const std::string& group, const std::vector<int>& members,
                                           std::uint64_t number, const std::string& operation, ErrorCode code,
                                           const std::string& reason) {
  auto message =
      make_stalled_message(options_.roster.size(), group, members, number, operation, milliseconds{0});
  message["code"] = static_cast<int>(code);
  message["reason"] = reason;
  post(std::move(message));
}

void ControlPlane::fail_job(ErrorCode code, const std::string& text) {
  check();
  report_failure(code, text);
  mailbox_.wait_for_failure(coordinator_grace);
  check();
  throw Error(code, text);
}

void ControlPlane::report_failure(ErrorCode code, const std::string& text) {
  post({{"is", "broken"}, {"code", static_cast<int>(code)}, {"speaker", rank_}, {"text", text}});
}

}  // namespace muster::control
