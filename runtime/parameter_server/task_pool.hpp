// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "muster/parameter_server.hpp"

namespace muster::parameter_server {

/// Of so many complete clocks the sums are kept, for clients that are late: some megabytes.
inline constexpr std::uint64_t max_kept_sums = 1u << 16;

/// Which tasks of the clocks are taken and done. Server 0 has it. A worker is named by its rank.
class TaskPool {
 public:
  /// `fixed_workers`: by index of a task, its worker; empty when tasks are dealt.
  TaskPool(std::uint64_t tasks_per_clock, std::vector<int> fixed_workers);

  std::optional<ParameterTask> take(int worker, std::uint64_t last);
  /// A task counts once. @throws Error(ErrorCode::system) for a task that was not taken.
  void complete(int worker, const ParameterTask& task, std::span<const double> sums);
  /// Its tasks go to others, or with fixed workers are left out.
  void remove_worker(int worker);
  void add_sums(std::span<const double> sums);

  /// All tasks of so many clocks are done.
  std::uint64_t completed() const { return completed_; }
  /// Sums over the tasks of a complete clock; null when newer ones took their place (max_kept_sums).
  const std::vector<double>* sums(std::uint64_t clock) const;
  /// A task of clock `last` at most was given back.
  bool has_returned(std::uint64_t last) const {
    return !returned_.empty() && returned_.begin()->first <= last;
  }
  /// The workers of the oldest clock's missing tasks.
  std::set<int> missing_workers() const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // clock, index
  struct Clock {
    std::vector<bool> done;
    std::uint64_t left = 0;
    std::map<std::uint64_t, std::vector<double>> sums;  // by index
  };

  Clock& open_clock(std::uint64_t clock);
  void finish_clocks();

  std::uint64_t tasks_per_clock_;
  std::vector<int> fixed_workers_;
  std::set<int> removed_;
  ParameterTask next_;
  std::set<Key> returned_;
  std::map<Key, int> taken_;             // by whom, of tasks that are not done
  std::map<std::uint64_t, Clock> open_;  // clocks with a task that is done, and not all
  std::uint64_t completed_ = 0;
  std::deque<std::vector<double>> sums_;  // of the newest complete clocks
  std::vector<double> added_;
};

}  // namespace muster::parameter_server
