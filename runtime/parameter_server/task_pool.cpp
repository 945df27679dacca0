// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/task_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parameter_server/messages.hpp"

namespace muster::parameter_server {
namespace {

void add_to(std::vector<double>& total, std::span<const double> sums) {
  if (total.size() < sums.size()) total.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) total[i] += sums[i];
}

}  // namespace

TaskPool::TaskPool(std::uint64_t tasks_per_clock, std::vector<int> fixed_workers)
    : tasks_per_clock_(tasks_per_clock), fixed_workers_(std::move(fixed_workers)) {}

std::optional<ParameterTask> TaskPool::take(int worker, std::uint64_t last) {
  if (!fixed_workers_.empty())
    throw Error(ErrorCode::system, "a worker takes a task, but each has fixed ones");
  if (has_returned(last)) {
    auto const key = returned_.extract(returned_.begin()).value();
    taken_[key] = worker;
    return ParameterTask{key.first, key.second};
  }
  if (next_.clock > last) return std::nullopt;
  auto const task = next_;
  if (++next_.index == tasks_per_clock_) next_ = {next_.clock + 1, 0};
  taken_[{task.clock, task.index}] = worker;
  return task;
}

TaskPool::Clock& TaskPool::open_clock(std::uint64_t clock) {
  if (clock - completed() > max_open_clocks)
    throw Error(ErrorCode::system,
                fmt::format("clock {} begins while clock {} is not complete", clock, completed()));
  auto const [found, is_new] = open_.try_emplace(clock);
  if (!is_new) return found->second;
  auto& opened = found->second;
  opened.done.resize(tasks_per_clock_);
  opened.left = tasks_per_clock_;
  for (std::size_t i = 0; i < fixed_workers_.size(); ++i) {
    opened.done[i] = removed_.contains(fixed_workers_[i]);
    if (opened.done[i]) --opened.left;
  }
  return opened;
}

void TaskPool::complete(int worker, const ParameterTask& task, std::span<const double> sums) {
  if (task.index >= tasks_per_clock_)
    throw Error(ErrorCode::system, fmt::format("task {} of {} is done", task.index, tasks_per_clock_));
  if (task.clock < completed()) return;
  if (!fixed_workers_.empty() && fixed_workers_[task.index] != worker)
    throw Error(ErrorCode::system, fmt::format("task {} is another worker's", task.index));
  Key const key{task.clock, task.index};
  if (fixed_workers_.empty() && !taken_.contains(key) && !returned_.contains(key)) {
    auto const found = open_.find(task.clock);
    if (found != open_.end() && found->second.done[task.index]) return;
    throw Error(ErrorCode::system, fmt::format("task {} of clock {} was not taken", task.index, task.clock));
  }
  auto& clock = open_clock(task.clock);
  taken_.erase(key);
  returned_.erase(key);
  if (clock.done[task.index]) return;
  clock.done[task.index] = true;
  --clock.left;
  clock.sums[task.index].assign(sums.begin(), sums.end());
  finish_clocks();
}

void TaskPool::finish_clocks() {
  for (auto first = open_.begin(); first != open_.end() && first->first == completed();
       first = open_.begin()) {
    if (first->second.left > 0) return;
    std::vector<double> total;
    for (const auto& [index, sums] : first->second.sums) add_to(total, sums);
    add_to(total, std::exchange(added_, {}));
    open_.erase(first);
    sums_.push_back(std::move(total));
    if (sums_.size() > max_kept_sums) sums_.pop_front();
    ++completed_;
  }
}

const std::vector<double>* TaskPool::sums(std::uint64_t clock) const {
  std::uint64_t const first = completed_ - sums_.size();
  return clock >= first && clock < completed_ ? &sums_[clock - first] : nullptr;
}

void TaskPool::remove_worker(int worker) {
  removed_.insert(worker);
  for (auto at = taken_.begin(); at != taken_.end();) {
    if (at->second == worker) {
      returned_.insert(at->first);
      at = taken_.erase(at);
    } else {
      ++at;
    }
  }
  for (std::size_t index = 0; index < fixed_workers_.size(); ++index) {
    if (fixed_workers_[index] != worker) continue;
    for (auto& [number, clock] : open_) {
      if (clock.done[index]) continue;
      clock.done[index] = true;
      --clock.left;
    }
  }
  finish_clocks();
}

void TaskPool::add_sums(std::span<const double> sums) { add_to(added_, sums); }

std::set<int> TaskPool::missing_workers() const {
  std::set<int> workers;
  for (const auto& [key, worker] : taken_)
    if (key.first == completed()) workers.insert(worker);
  auto const found = open_.find(completed());
  for (std::size_t i = 0; i < fixed_workers_.size(); ++i) {
    bool const done = found != open_.end() ? found->second.done[i] : removed_.contains(fixed_workers_[i]);
    if (!done) workers.insert(fixed_workers_[i]);
  }
  return workers;
}

}  // namespace muster::parameter_server
