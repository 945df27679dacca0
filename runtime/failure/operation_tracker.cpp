// SPDX-License-Identifier: Apache-2.0
#include "failure/operation_tracker.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "failure/background_errors.hpp"
#include "hash/fnv1a.hpp"

namespace muster::control {
namespace {

// Every bit changes many bits of the result, also of results that follow from it.
std::uint64_t mix(std::uint64_t digest) {
  auto const product = digest * 0x9e3779b97f4a7c15;
  return product ^ std::rotl(product, 32);
}

// In the others a rank may have all that it needs before every rank has entered, or it is not known.
bool needs_all_ranks(std::string_view operation, bool on_gpu) {
  using detail::OperationKind;
  auto const is = [&](OperationKind kind) { return operation == detail::to_string(kind); };
  if (on_gpu && (is(OperationKind::reduce) || is(OperationKind::all_to_all_v))) return false;
  return !is(OperationKind::broadcast) && !is(OperationKind::all_gather_v) &&
         !is(OperationKind::reduce_scatter_v) && operation != grouped_messages;
}

// A longer list of ranks is not sent.
constexpr std::size_t max_member_runs = 256;

}  // namespace

void OperationState::enter(const char* name) { enter(name, no_call, 0, fnv1a(name)); }

std::uint64_t OperationState::enter(const detail::CollectiveCall& call) {
  auto const arguments = call.packed_arguments();
  return enter(detail::to_string(call.kind), call.counts.empty() ? arguments : no_call, call.count,
               call.digest(arguments));
}

std::uint64_t OperationState::enter(const char* name, std::uint64_t arguments, std::uint64_t count,
                                    std::uint64_t operation_digest) {
  constexpr auto order = std::memory_order_relaxed;
  auto const sequence = number.load(order) + 1;
  auto const digest = earlier_operations_ ^ operation_digest;
  auto& recent = recent_[sequence % recent_.size()];
  // A reader that sees a part of this record sees the number before it, too, and takes the record for none.
  std::atomic_thread_fence(std::memory_order_release);
  recent.name.store(name, order);
  recent.arguments.store(arguments, order);
  recent.count.store(count, order);
  recent.digest.store(digest, order);
  operation.store(name, order);
  number.store(sequence, std::memory_order_release);
  earlier_operations_ = mix(digest);
  if (flight_recorder) flight_recorder->enter(name, group.c_str(), sequence);
  return digest;
}

void OperationState::enter_point_to_point(const char* name) {
  operation.store(name, std::memory_order_release);
  if (flight_recorder) flight_recorder->enter(name, group.c_str(), 0);
}

std::string OperationState::operation_at(std::uint64_t sequence) const {
  if (!is_recent(sequence)) return "";
  auto const& recent = recent_[sequence % recent_.size()];
  const char* const name = recent.name;
  auto const arguments = recent.arguments.load();
  auto const count = recent.count.load();
  // The program may have written the next call meanwhile.
  if (!is_recent(sequence) || name == nullptr) return "";
  return arguments == no_call ? name : detail::describe_call(detail::unpack_call(arguments, count));
}

std::vector<std::uint64_t> OperationState::digests_until(std::uint64_t sequence) const {
  std::vector<std::uint64_t> digests;
  for (; sequence > 0; --sequence) {
    auto const digest = recent_[sequence % recent_.size()].digest.load();
    if (!is_recent(sequence)) break;
    digests.push_back(digest);
  }
  return digests;
}

WaitGroup& OperationState::set_wait_group(std::vector<int> members, protocol::Message encoded, int rank,
                                          bool on_gpu) {
  if (!owned_wait_group_) {
    owned_wait_group_ = std::make_unique<WaitGroup>(std::move(members), std::move(encoded), rank, on_gpu);
    wait_group_ = owned_wait_group_.get();
  }
  return *owned_wait_group_;
}

protocol::Wait OperationState::current_wait() const {
  const WaitGroup* const tracked = wait_group_;
  std::string_view const called = operation.load();
  bool const sends = called == detail::to_string(detail::OperationKind::send);
  if (sends || called == detail::to_string(detail::OperationKind::recv)) {
    auto const with = peer.load();
    // A short send may end without its recv.
    if (with < 0 || (sends && !long_wait)) return {};
    auto const at = static_cast<std::size_t>(with);
    const auto& counts = sends ? tracked->messages.sent : tracked->messages.received;
    return {group, 0, {}, tracked->rank, tracked->members.at(at), sends, counts.at(at)};
  }
  if (number == 0 || !needs_all_ranks(called, tracked->on_gpu) ||
      tracked->encoded_members.size() > max_member_runs)
    return {};
  return {.communicator = group, .number = number, .members = tracked->encoded_members};
}

bool OperationState::may_have_entered(const protocol::Wait& wait) const {
  if (wait.number > 0) return number >= wait.number;
  const WaitGroup* const tracked = wait_group_;
  auto const at = static_cast<std::size_t>(wait.from);
  if (tracked == nullptr || wait.from < 0 || at >= tracked->members.size()) return true;
  return (wait.sends ? tracked->messages.received : tracked->messages.sent)[at] >= wait.count;
}

OperationTracker::JobCall::JobCall(OperationTracker& tracker, const std::string& call) : tracker_(tracker) {
  tracker_.note_caller();
  std::lock_guard const lock(tracker_.mutex_);
  call_ = tracker_.job_calls_.insert(call);
}

OperationTracker::JobCall::~JobCall() {
  std::lock_guard const lock(tracker_.mutex_);
  tracker_.job_calls_.erase(call_);
}

std::shared_ptr<OperationState> OperationTracker::register_communicator(const std::string& group) {
  auto state = std::make_shared<OperationState>();
  state->flight_recorder = flight_recorder_;
  state->group = group;
  std::lock_guard const lock(mutex_);
  if (std::erase_if(by_communicator_, [](const auto& entry) { return entry.second.expired(); }) > 0)
    has_ended_communicators_ = true;
  by_communicator_[group] = state;
  return state;
}

// Calls of Muster's own threads are not the program's.
void OperationTracker::note_other_caller() {
  if (BackgroundErrors::active()) return;
  static thread_local auto const token = std::make_shared<const char>();  // lives as long as the thread
  thread_token_ = token.get();
  std::lock_guard const lock(mutex_);
  if (!caller_token_.expired() && caller_token_.lock() != token) several_callers_ = true;
  caller_token_ = token;
  caller_ = thread_token_;
}

// A communicator that is not there may have ended after the rank left the call.
void OperationTracker::add_waits(protocol::RankState& reply, const protocol::RankStateQuery& query) const {
  reply.one_caller = !several_callers_;
  std::size_t waiting = 0;
  for (const auto& [communicator, entry] : by_communicator_) {
    auto const state = entry.lock();
    if (!state) continue;
    if (state->background > 0 && !state->awaited) reply.one_caller = false;
    if (!state->inside || state->watched || !state->is_tracked()) continue;
    ++waiting;
    reply.wait = state->current_wait();
  }
  if (waiting != 1) reply.wait = {};
  for (const auto& wait : query.waits) {
    auto const found = by_communicator_.find(wait.communicator);
    if (found == by_communicator_.end()) {
      reply.entered.push_back(has_ended_communicators_);
      continue;
    }
    auto const state = found->second.lock();
    reply.entered.push_back(!state || state->may_have_entered(wait));
  }
}

protocol::RankState OperationTracker::rank_state(const protocol::RankStateQuery& query) const {
  protocol::RankState reply;
  reply.id = query.id;
  reply.last_call = flight_recorder_->text();
  std::lock_guard const lock(mutex_);
  auto const add_wait = [&reply](const std::string& wait) {
    reply.current_wait += (reply.current_wait.empty() ? "" : ", ") + wait;
  };
  for (const auto& call : job_calls_) add_wait(call);
  for (const auto& [communicator, entry] : by_communicator_) {
    auto const state = entry.lock();
    if (!state) continue;
    bool const inside = state->inside;
    auto const number = state->number.load();
    const char* const operation = state->operation;
    if (inside) add_wait(describe_operation(operation, number, communicator));
    if (communicator != query.communicator) continue;
    reply.number = number;
    reply.operation = operation;
    reply.inside = inside;
    reply.queried = state->operation_at(query.number);
    reply.digests = state->digests_until(std::min(query.number, number));
  }
  add_waits(reply, query);
  return reply;
}

}  // namespace muster::control
