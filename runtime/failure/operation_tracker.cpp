// SPDX-License-Identifier: Apache-2.0
#include "failure/operation_tracker.hpp"

#include "transport/flight_recorder.hpp"

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

Message OperationTracker::operation_reply(const std::string& group, std::uint64_t number) const {
  Message reply{{"is", "here"},
                {"group", group},
                {"number", 0},
                {"operation", ""},
                {"at", ""},
                {"inside", false},
                {"last", flight_recorder_->text()}};
  std::lock_guard const lock(mutex_);
  auto const found = by_communicator_.find(group);
  if (auto const state = found == by_communicator_.end() ? nullptr : found->second.lock()) {
    reply["number"] = state->number.load();
    reply["operation"] = state->operation.load();
    reply["inside"] = state->inside.load();
    reply["at"] = state->operation_at(number);
  }
  return reply;
}

std::string OperationTracker::current_wait() const {
  std::string text;
  std::lock_guard const lock(mutex_);
  for (const auto& [group, entry] : by_communicator_) {
    auto const state = entry.lock();
    if (!state || !state->inside) continue;
    text += (text.empty() ? "" : ", ") + describe_operation(state->operation.load(), state->number, group);
  }
  return text;
}

}  // namespace muster::control
