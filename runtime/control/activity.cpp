// SPDX-License-Identifier: Apache-2.0
#include "control/activity.hpp"

namespace muster::control {

std::shared_ptr<Activity> Activities::follow(const std::string& group) {
  auto activity = std::make_shared<Activity>();
  std::lock_guard const lock(mutex_);
  std::erase_if(of_group_, [](const auto& entry) { return entry.second.expired(); });
  of_group_[group] = activity;
  return activity;
}

Message Activities::here(const std::string& group) const {
  Message here{{"is", "here"}, {"group", group}, {"number", 0}, {"operation", ""}};
  std::lock_guard const lock(mutex_);
  auto const found = of_group_.find(group);
  if (auto const activity = found == of_group_.end() ? nullptr : found->second.lock()) {
    here["number"] = activity->number.load();
    here["operation"] = activity->operation.load();
  }
  return here;
}

}  // namespace muster::control
