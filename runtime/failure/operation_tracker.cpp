// SPDX-License-Identifier: Apache-2.0
#include "failure/operation_tracker.hpp"

#include "transport/flight_recorder.hpp"

namespace muster::control {

void OperationState::enter(const char* what) {
  auto const now = number.load(std::memory_order_relaxed) + 1;
  recent_[now % recent_.size()] = what;
  operation = what;
  number = now;
  if (last_call) last_call->enter(what, group.c_str(), now);
}

void OperationState::enter_message(const char* what) {
  operation = what;
  if (last_call) last_call->enter(what, group.c_str(), 0);
}

const char* OperationState::operation_at(std::uint64_t of) const {
  auto const now = number.load();
  if (of > now || of + recent_.size() <= now) return "";
  auto const* const what = recent_[of % recent_.size()].load();
  return what != nullptr ? what : "";
}

std::shared_ptr<OperationState> OperationTracker::follow(const std::string& group) {
  auto activity = std::make_shared<OperationState>();
  activity->last_call = last_call_;
  activity->group = group;
  std::lock_guard const lock(mutex_);
  std::erase_if(of_group_, [](const auto& entry) { return entry.second.expired(); });
  of_group_[group] = activity;
  return activity;
}

Message OperationTracker::here(const std::string& group, std::uint64_t number) const {
  Message here{{"is", "here"},
               {"group", group},
               {"number", 0},
               {"operation", ""},
               {"at", ""},
               {"inside", false},
               {"last", last_call_->text()}};
  std::lock_guard const lock(mutex_);
  auto const found = of_group_.find(group);
  if (auto const activity = found == of_group_.end() ? nullptr : found->second.lock()) {
    here["number"] = activity->number.load();
    here["operation"] = activity->operation.load();
    here["inside"] = activity->inside.load();
    here["at"] = activity->operation_at(number);
  }
  return here;
}

std::string OperationTracker::inside() const {
  std::string text;
  std::lock_guard const lock(mutex_);
  for (const auto& [group, entry] : of_group_) {
    auto const activity = entry.lock();
    if (!activity || !activity->inside) continue;
    text += (text.empty() ? "" : ", ") + describe_operation(activity->operation.load(), activity->number, group);
  }
  return text;
}

}  // namespace muster::control
