// SPDX-License-Identifier: Apache-2.0
#include "failure/operation_tracker.hpp"

#include <algorithm>
#include <bit>

#include "hash/fnv1a.hpp"

namespace muster::control {
namespace {

// Every bit changes many bits of the result, also of results that follow from it.
std::uint64_t mix(std::uint64_t digest) {
  auto const product = digest * 0x9e3779b97f4a7c15;
  return product ^ std::rotl(product, 32);
}

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

OperationTracker::JobCall::JobCall(OperationTracker& tracker, const std::string& call) : tracker_(tracker) {
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
  std::erase_if(by_communicator_, [](const auto& entry) { return entry.second.expired(); });
  by_communicator_[group] = state;
  return state;
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
  return reply;
}

}  // namespace muster::control
