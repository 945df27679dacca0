// SPDX-License-Identifier: Apache-2.0
// Which task of the node takes which row of the plan. Only the task's own process learns which GPUs Slurm
// left to it, so the tasks claim rows in memory that they share until they become the user's program. No two
// tasks take the same row, so none share cores, and no task waits.
#pragma once

#include <bitset>
#include <cstddef>
#include <vector>

namespace muster::spank {

/// The claim of one task.
struct ClaimedRow {
  static constexpr std::size_t most_gpus = 256;  // of a node, with 7 MIG instances on each of 36 GPUs
  int row = -1;                                  ///< of the plan; -1: the task has no claim yet
  int rank = -1;                                 ///< of the task in the step
  std::bitset<most_gpus> gpus;  ///< indices in the step's list of GPUs; none: those of the row
};

class RowClaims {
 public:
  RowClaims() = default;
  /// In user_init, before the tasks are forked. @throws std::bad_alloc
  explicit RowClaims(std::size_t tasks);
  RowClaims(RowClaims&& other) noexcept;
  RowClaims& operator=(RowClaims&& other) noexcept;
  ~RowClaims();

  std::size_t tasks() const { return tasks_; }

  /// In a task: claims the first row of `wanted` that no other task has, else the first free row. Returns it.
  int claim(std::size_t task, const std::vector<int>& wanted);

  /// Stores the task's claim. True for the last task of the node, which may then read the claims of all.
  bool arrive(std::size_t task, const ClaimedRow& claimed);

  const ClaimedRow& claimed_by(std::size_t task) const;

 private:
  struct Shared;
  Shared* shared_ = nullptr;
  std::size_t tasks_ = 0;
};

}  // namespace muster::spank
