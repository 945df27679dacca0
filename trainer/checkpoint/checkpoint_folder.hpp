// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"

namespace muster {

/// The checkpoints of one run: FOLDER/step-00000500 and so on. One process at a time may use it.
class CheckpointFolder {
 public:
  /// `keep`: number of good checkpoints to keep, at least 1.
  CheckpointFolder(std::filesystem::path folder, std::int64_t keep);

  /// Creates the folder and removes the partial checkpoints of killed processes.
  /// @throws muster::Error(ErrorCode::system), as save() and set_aside() do.
  void open();
  /// Moves the folder to FOLDER.before-1 (or -2, …) and returns that path; nothing when there are no
  /// checkpoints.
  std::optional<std::filesystem::path> set_aside();

  /// Steps of the checkpoints, newest first.
  std::vector<std::int64_t> steps() const;
  std::filesystem::path checkpoint_path(std::int64_t step) const;

  struct Found {
    std::filesystem::path path;
    TrainingState state;
  };
  /// Reads the newest good checkpoint. Calls `skipped` with one line for each newer checkpoint that is
  /// damaged. `check_state` may throw to refuse the state of a good one before its tensors are read; that
  /// ends the search.
  /// @throws CheckpointVersionError for one that is newer than every good one;
  /// muster::Error(ErrorCode::usage) when there are checkpoints and all are damaged.
  std::optional<Found> read_newest(const models::TensorTable& table, const TrainingTensors& tensors,
                                   const std::function<void(const TrainingState&)>& check_state,
                                   const std::function<void(const std::string&)>& skipped);

  /// Writes the checkpoint of state.step, then removes the oldest ones so that `keep` good ones stay. Removes
  /// none while updates are being skipped. Returns the new checkpoint's path.
  std::filesystem::path save(const TrainingState& state, const models::TensorTable& table,
                             const TrainingTensors& tensors);

 private:
  void remove_oldest(std::int64_t newest);

  std::filesystem::path folder_;
  std::int64_t keep_;
  std::set<std::int64_t> damaged_;  ///< found by read_newest()
};

}  // namespace muster
