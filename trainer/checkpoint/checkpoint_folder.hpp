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

/// The checkpoints of one run: FOLDER/step-00000500 and so on. For one process at a time.
class CheckpointFolder {
 public:
  /// `keep`, at least 1: how many good ones stay.
  CheckpointFolder(std::filesystem::path folder, std::int64_t keep);

  /// Creates the folder and removes what killed processes left half done.
  /// @throws muster::Error(ErrorCode::system), as save() and set_aside() do.
  void open();
  /// Moves all that is in it to FOLDER.before-1 (or -2, …), and says where; nothing when there is nothing.
  std::optional<std::filesystem::path> set_aside();

  /// Steps that there are checkpoints of, newest first.
  std::vector<std::int64_t> steps() const;
  std::filesystem::path path_of(std::int64_t step) const;

  struct Found {
    std::filesystem::path path;
    TrainingState state;
  };
  /// Reads the newest checkpoint that is whole. Of each newer one that is not, `skipped` is told in one line.
  /// `accepts` may throw to refuse the state of a whole one before its tensors are read; that ends the
  /// search.
  /// @throws muster::Error(ErrorCode::usage) when there are checkpoints and none is whole.
  std::optional<Found> read_newest(const models::TensorTable& table, const TrainingTensors& tensors,
                                   const std::function<void(const TrainingState&)>& accepts,
                                   const std::function<void(const std::string&)>& skipped);

  /// Writes the checkpoint of state.step and then removes the oldest, so that `keep` good ones stay. While
  /// updates are being skipped none is removed. Returns its path.
  std::filesystem::path save(const TrainingState& state, const models::TensorTable& table,
                             const TrainingTensors& tensors);

 private:
  void remove_oldest(std::int64_t newest);

  std::filesystem::path folder_;
  std::int64_t keep_;
  std::set<std::int64_t> damaged_;  ///< found by read_newest()
};

}  // namespace muster
