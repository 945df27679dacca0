// SPDX-License-Identifier: Apache-2.0
#include "communicator/communicator_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "cbor.hpp"
#include "control_plane/rank_ranges.hpp"
#include "roster/roster.hpp"
#include "telemetry/event_log.hpp"

namespace muster::detail {
namespace {

std::vector<int> all_ranks(std::size_t size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// A rank that waits for so long may wait for a rank that makes another call.
constexpr std::chrono::milliseconds first_comparison{1000};

// A report is a message to rank 0. Most mistakes show in the first calls; a later report shows that calls
// before it differed, too.
bool is_reported_by_default(std::uint64_t call) {
  constexpr std::uint64_t first = 4, interval = 1024;
  return call <= first || std::has_single_bit(call) || call % interval == 0;
}

// All ranks' counts are 16 MB at rank 0 then.
constexpr int most_ranks_with_counts = 1024;

}  // namespace

CommunicatorGroup::CommunicatorGroup(const std::shared_ptr<const JobContext>& job, const std::string& name)
    : CommunicatorGroup(job, name, all_ranks(job->roster.size())) {}

CommunicatorGroup::CommunicatorGroup(std::shared_ptr<const JobContext> job, std::string name,
                                     std::vector<int> members)
    : job_(std::move(job)),
      name_(std::move(name)),
      interned_name_(observe::interned(name_)),
      members_(std::move(members)),
      call_reports_(chosen_call_reports()) {
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), job_->rank) - members_.begin());
  operation_state_ =
      job_->plane ? job_->plane->register_communicator(name_) : std::make_shared<control::OperationState>();
}

CommunicatorGroup::CallReports CommunicatorGroup::chosen_call_reports() {
  const char* const check = std::getenv("MUSTER_CHECK");
  std::string const chosen = check != nullptr ? check : "";
  if (chosen == "calls") return CallReports::all;
  return chosen == "off" ? CallReports::none : CallReports::some;
}

std::string CommunicatorGroup::describe_this_rank() const {
  return bootstrap::describe_rank(job_->roster[static_cast<std::size_t>(job_->rank)]);
}

CommunicatorGroup CommunicatorGroup::split(int color, int key) {
  begin_operation("split");
  auto const waits = wait_scope();
  auto const number = ++split_count_;
  auto const blob = write_cbor(std::vector<int>{color, key});
  std::vector<control::Blob> blobs{blob};
  if (job_->plane && size() > 1) {
    blobs = job_->plane->gather(fmt::format("split {} of communicator '{}'", number, name_), members_, blob,
                                timeout());
  }
  std::vector<std::tuple<int, int, int>> chosen;  // key, rank in this group, rank in the job
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    if (blobs[i].empty()) continue;  // a lost rank
    auto const choice = read_cbor(blobs[i], "a rank's color and key").get<std::vector<int>>();
    if (choice.at(0) == color) chosen.emplace_back(choice.at(1), static_cast<int>(i), members_.at(i));
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  for (const auto& [unused_key, group_rank, job_rank] : chosen) members.push_back(job_rank);
  return CommunicatorGroup(job_, fmt::format("{}/{}.{}", name_, number, color), std::move(members));
}

std::vector<std::vector<std::uint64_t>> CommunicatorGroup::host_all_gather(
    const char* what, const std::vector<std::uint64_t>& mine) {
  begin_operation(what);
  auto const waits = wait_scope();
  auto const number = ++host_gathers_;
  if (!job_->plane || size() == 1) return {mine};
  std::vector<std::vector<std::uint64_t>> all;
  for (const auto& blob : job_->plane->gather(fmt::format("{} {} of communicator '{}'", what, number, name_),
                                              members_, write_cbor(mine), timeout()))
    all.push_back(blob.empty() ? std::vector<std::uint64_t>{}
                               : read_cbor(blob, what).get<std::vector<std::uint64_t>>());
  return all;
}

void CommunicatorGroup::start_operation(std::span<const int> peers) {
  if (failed()) check();
  if (job_->plane) job_->plane->note_caller();
  if (next_report_.count() != 0) operation_state_->long_wait = false;
  peers_.assign(peers.begin(), peers.end());
  deadline_.reset();
  next_report_ = std::chrono::milliseconds{0};
}

void CommunicatorGroup::begin_operation(const char* operation) {
  start_operation();
  operation_state_->enter(operation);
}

std::uint64_t CommunicatorGroup::begin_call(const CollectiveCall& call, bool reports_counts) {
  start_operation();
  auto const digest = operation_state_->enter(call);
  if (call_reports_ == CallReports::none || !job_->plane || size() == 1) return digest;
  if (!is_reported_by_default(++calls_) && call_reports_ != CallReports::all) return digest;
  protocol::CallReport report{name_, number(), size(), describe_call(call), digest};
  if (reports_counts && call.kind == OperationKind::all_to_all_v && size() <= most_ranks_with_counts) {
    report.rank = rank();
    report.send_counts.assign(call.counts.begin(), call.counts.end());
    report.recv_counts.assign(call.recv_counts.begin(), call.recv_counts.end());
  }
  job_->plane->report_call(report);
  return digest;
}

void CommunicatorGroup::begin_setup(const char* operation) {
  begin_operation(operation);
  if (job_->plane) next_report_ = std::max(job_->plane->stall_warning(), JoinOptions{}.stall_warning);
}

void CommunicatorGroup::begin_messages(const char* operation, std::span<const int> peers) {
  start_operation(peers);
  operation_state_->peer = peers.size() == 1 ? peers.front() : -1;
  operation_state_->enter_point_to_point(operation);
}

control::MessageCounters& CommunicatorGroup::track_waits(bool on_gpu) {
  auto encoded = control::encode_ranks(members_, static_cast<int>(job_->roster.size()));
  return operation_state_->set_wait_group(members_, std::move(encoded), rank_, on_gpu).messages;
}

void CommunicatorGroup::await_background(bool awaited) noexcept {
  if (job_->plane && awaited) job_->plane->note_caller();
  operation_state_->awaited = awaited;
}

void CommunicatorGroup::check() const {
  if (job_->plane) job_->plane->check();
}

std::string CommunicatorGroup::describe_operation() const {
  std::string operation = operation_state_->operation.load();
  if (peers_.empty()) return operation;
  std::vector<int> ranks;
  for (int const peer : peers_) ranks.push_back(members_.at(static_cast<std::size_t>(peer)));
  return operation + fmt::format(" with {}", bootstrap::describe_ranks(job_->roster, ranks));
}

protocol::StalledOperation CommunicatorGroup::stalled_operation(std::chrono::milliseconds waited) const {
  auto const operation = describe_operation();
  return {.communicator = name_,
          .number = collective_number(),
          .operation = operation,
          .call = peers_.empty() ? operation_state_->operation_at(number()) : operation,
          .waited = waited};
}

protocol::StalledOperation CommunicatorGroup::failed_operation(ErrorCode code,
                                                               const std::string& reason) const {
  return {.communicator = name_,
          .number = number(),
          .operation = operation(),
          .call = operation_state_->operation_at(number()),
          .code = code,
          .reason = reason};
}

void CommunicatorGroup::warn_if_stalled(const Deadline& deadline) {
  if (!job_->plane) return;
  auto const waited = deadline.length() - deadline.remaining();
  auto const warning = job_->plane->stall_warning();
  bool const warns = warning.count() > 0;
  if (next_report_.count() == 0)
    next_report_ = warns ? std::min(first_comparison, warning) : first_comparison;
  if (waited < next_report_) return;
  operation_state_->long_wait = true;
  auto report = stalled_operation(next_report_);
  report.warning = true;
  bool const comparison_only = !warns || next_report_ < warning;
  report.silent = comparison_only;
  job_->plane->report_operation(members_, std::move(report));
  next_report_ *= 2;
  if (comparison_only && warns) next_report_ = std::min(next_report_, warning);
}

void CommunicatorGroup::fail_stalled(std::chrono::milliseconds waited) const {
  if (job_->plane) job_->plane->fail_operation(members_, stalled_operation(waited));
  fail(ErrorCode::deadline, "did not complete within " + format_duration(waited));
}

std::string CommunicatorGroup::failure_text(const std::string& reason) const {
  return fmt::format("{} on communicator '{}', {}: {}", operation(), name_, describe_this_rank(), reason);
}

void CommunicatorGroup::fail(ErrorCode code, const std::string& reason) const {
  auto const text = failure_text(reason);
  // Every rank may get the same error; rank 0 chooses the one that reports it.
  if (job_->plane && peers_.empty() && size() > 1 && (code == ErrorCode::system || code == ErrorCode::device))
    job_->plane->fail_operation(members_, failed_operation(code, reason));
  if (job_->plane) job_->plane->fail_job(code, text);
  throw Error(code, text);
}

void CommunicatorGroup::fail_mismatch() const {
  std::string const reason = "ranks made different calls";
  if (job_->plane) job_->plane->fail_operation(members_, failed_operation(ErrorCode::usage, reason));
  fail(ErrorCode::usage, reason);
}

void CommunicatorGroup::require_recv_counts(std::span<const std::uint64_t> sent,
                                            std::span<const std::size_t> recv_counts) const {
  for (std::size_t r = 0; r < recv_counts.size(); ++r) {
    if (sent[r] == recv_counts[r]) continue;
    const auto& other = job_->roster.at(static_cast<std::size_t>(members_.at(r)));
    fail(ErrorCode::usage, fmt::format("{} sends {} elements to this rank, whose recv_counts has {}",
                                       bootstrap::describe_rank(other), sent[r], recv_counts[r]));
  }
}

void CommunicatorGroup::report_stalled(std::chrono::milliseconds waited) const {
  job_->plane->report_operation(members_, stalled_operation(waited));
}

void CommunicatorGroup::report_failure(ErrorCode code, const std::string& reason) const {
  if (peers_.empty() && size() > 1)
    job_->plane->report_operation(members_, failed_operation(code, reason));
  else
    job_->plane->report_failure(code, failure_text(reason));
}

}  // namespace muster::detail
