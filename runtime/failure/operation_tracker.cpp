// SPDX-License-Identifier: Apache-2.0
#include "failure/operation_tracker.hpp"

namespace muster::control {

void OperationState::enter(const char* name) {
  auto const now = number.load(std::memory_order_relaxed) + 1;
  recent_[now % recent_.size()] = name;
  operation = name;
  number = now;
  if (flight_recorder) flight_recorder->enter(name, group.c_str(), now);
}

void OperationState::enter_point_to_point(const char* name) {
  operation = name;
  if (flight_recorder) flight_recorder->enter(name, group.c_str(), 0);
}

const char* OperationState::operation_at(std::uint64_t sequence) const {
  auto const now = number.load();
  if (sequence > now || sequence + recent_.size() <= now) return "";
  auto const* const name = recent_[sequence % recent_.size()].load();
  return name != nullptr ? name : "";
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
  for (const auto& [communicator, entry] : by_communicator_) {
    auto const state = entry.lock();
    if (!state) continue;
    bool const inside = state->inside;
    auto const number = state->number.load();
    const char* const operation = state->operation;
    if (inside)
      reply.current_wait +=
          (reply.current_wait.empty() ? "" : ", ") + describe_operation(operation, number, communicator);
    if (communicator != query.communicator) continue;
    reply.number = number;
    reply.operation = operation;
    reply.inside = inside;
    reply.queried = state->operation_at(query.number);
  }
  return reply;
}

}  // namespace muster::control
