// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/slice_updates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parameter_server/messages.hpp"

namespace muster::parameter_server {
namespace {

void add_gradient(std::vector<float>& sum, std::vector<float> gradient) {
  if (sum.empty()) sum.swap(gradient);
  for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] += gradient[i];
}

}  // namespace

SliceUpdates::SliceUpdates(std::uint64_t tasks_per_clock, bool synchronous, ParameterServer::Update update)
    : tasks_per_clock_(tasks_per_clock),
      synchronous_(synchronous),
      update_(std::move(update)),
      tree_(tasks_per_clock) {}

void SliceUpdates::check(const ParameterTask& task) const {
  if (task.index >= tasks_per_clock_)
    throw Error(ErrorCode::system, fmt::format("a gradient of task {} of {}", task.index, tasks_per_clock_));
  if (task.clock > completed_ && task.clock - completed_ > (synchronous_ ? 0 : max_open_clocks))
    throw Error(ErrorCode::system,
                fmt::format("a gradient of clock {} while clock {} is not complete", task.clock, completed_));
}

void SliceUpdates::add(const ParameterTask& task, std::vector<float> gradient,
                       const std::vector<double>& arguments) {
  check(task);
  if (task.clock < completed_) return;
  if (!had_[task.clock].insert(task.index).second) return;
  if (synchronous_) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (i == arguments_.size()) arguments_.push_back(arguments[i]);
      arguments_[i] = std::max(arguments_[i], arguments[i]);
    }
    waiting_[task.index] = std::move(gradient);
  } else {
    update_({task, gradient, arguments});
  }
  finish_clocks();
}

void SliceUpdates::leave_out(std::uint64_t index) {
  left_out_.insert(index);
  finish_clocks();
}

bool SliceUpdates::is_done(std::uint64_t clock) const {
  auto const had = had_.find(clock);
  if (had == had_.end()) return false;
  auto count = had->second.size();
  for (auto const index : left_out_)
    if (!had->second.contains(index)) ++count;
  return count == tasks_per_clock_;
}

void SliceUpdates::finish_clocks() {
  while (true) {
    if (synchronous_ && had_.contains(completed_))
      while (next_ < tasks_per_clock_ && (waiting_.contains(next_) || left_out_.contains(next_)))
        add_to_tree(next_++);
    if (!is_done(completed_)) return;
    if (synchronous_) update_clock();
    had_.erase(completed_);
    ++completed_;
  }
}

void SliceUpdates::add_to_tree(std::uint64_t index) {
  auto const step = tree_.push({0, index});
  if (sums_.size() <= step.slot) sums_.resize(step.slot + 1);
  auto const gradient = waiting_.extract(index);
  sums_[step.slot] = gradient ? std::move(gradient.mapped()) : std::vector<float>();
  for (std::size_t i = 0; i < step.additions; ++i)
    add_gradient(sums_[step.slot - i - 1], std::exchange(sums_[step.slot - i], {}));
}

void SliceUpdates::update_clock() {
  auto const sum = std::exchange(sums_, {});
  tree_.clear();
  next_ = 0;
  auto const arguments = std::exchange(arguments_, {});
  update_({{completed_, 0}, sum.front(), arguments});
}

}  // namespace muster::parameter_server
