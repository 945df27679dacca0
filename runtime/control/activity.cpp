// SPDX-License-Identifier: Apache-2.0
#include "control/activity.hpp"

#include "control/failure.hpp"

namespace muster::control {

std::shared_ptr<Activity> Activities::follow(const std::string& group) {
  auto activity = std::make_shared<Activity>();
  std::lock_guard const lock(mutex_);
  std::erase_if(of_group_, [](const auto& entry) { return entry.second.expired(); });
  of_group_[group] = activity;
  return activity;
}

Message Activities::here(const std::string& group) const {
  Message here{{"is", "here"}, {"group", group}, {"number", 0}, {"operation", ""}, {"inside", false}};
  std::lock_guard const lock(mutex_);
  auto const found = of_group_.find(group);
  if (auto const activity = found == of_group_.end() ? nullptr : found->second.lock()) {
    here["number"] = activity->number.load();
    here["operation"] = activity->operation.load();
    here["inside"] = activity->inside.load();
  }
  return here;
}

std::string Activities::inside() const {
  std::string text;
  std::lock_guard const lock(mutex_);
  for (const auto& [group, entry] : of_group_) {
    auto const activity = entry.lock();
    if (!activity || !activity->inside) continue;
    text += (text.empty() ? "" : ", ") + place_of(activity->operation.load(), activity->number, group);
  }
  return text;
}

}  // namespace muster::control
