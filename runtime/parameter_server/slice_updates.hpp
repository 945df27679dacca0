// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "muster/parameter_server.hpp"
#include "reducer/chunk_tree.hpp"

namespace muster::parameter_server {

/// Applies each task's gradient to one server's slice once. In synchronous mode it adds the gradients of a
/// clock in the reducer's tree over the tasks, whatever their order of arrival, and makes one update.
class SliceUpdates {
 public:
  SliceUpdates(std::uint64_t tasks_per_clock, bool synchronous, ParameterServer::Update update);

  /// @throws Error(ErrorCode::system) for an invalid task.
  void check(const ParameterTask& task) const;
  /// Does nothing for a gradient that it had before. @throws as check(); what the update function throws.
  void add(const ParameterTask& task, std::vector<float> gradient, const std::vector<double>& arguments);
  /// The gradients of this task will not come any more.
  void leave_out(std::uint64_t index);
  /// All gradients of so many clocks are applied.
  std::uint64_t completed() const { return completed_; }

 private:
  bool is_done(std::uint64_t clock) const;
  void finish_clocks();
  void add_to_tree(std::uint64_t index);
  void update_clock();

  std::uint64_t tasks_per_clock_;
  bool synchronous_;
  ParameterServer::Update update_;
  std::uint64_t completed_ = 0;
  std::map<std::uint64_t, std::set<std::uint64_t>> had_;  // tasks of clocks that are not complete
  std::set<std::uint64_t> left_out_;
  // In synchronous mode: gradients that wait for those of lower tasks, and the tree's sums. An empty vector
  // is a gradient that was left out.
  std::map<std::uint64_t, std::vector<float>> waiting_;
  std::uint64_t next_ = 0;
  detail::ChunkTree tree_;
  std::vector<std::vector<float>> sums_;
  std::vector<double> arguments_;
};

}  // namespace muster::parameter_server
