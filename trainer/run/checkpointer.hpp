// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "config/options.hpp"
#include "report/progress.hpp"
#include "training/collective_errors.hpp"
#include "training/strategy.hpp"

namespace muster {

/// Resumes a run from a checkpoint and saves its checkpoints, which rank 0 writes while training continues.
class Checkpointer {
 public:
  /// `state`: of the run after its last ended step. All arguments but `world` must outlive this object.
  Checkpointer(const Options& options, TrainingState& state, Strategy& strategy, Communicator world,
               CollectiveErrors& errors);

  /// Chooses where the run begins, at first by --resume: sets the state's position and the tensors of all
  /// ranks. Collective.
  void resume();
  bool resumed() const noexcept { return resumed_; }
  /// True when the run was resumed from a checkpoint of its own output folder, whose metrics it continues.
  bool continues_folder() const noexcept { return resumed_ && resumes_own_; }
  /// Goes on with the strategy and the ranks that remain after a loss; from now on resume() reads the newest
  /// checkpoint. If rank 0 is another process than before, it opens the folder. Collective.
  void continue_with(Strategy& strategy, Communicator world);
  /// True when this step's checkpoint was resumed or its writing has begun.
  bool has_saved(std::int64_t step) const noexcept { return saved_step_ == step; }
  /// Copies the tensors and the state; rank 0 then writes them while training continues. Before the copy,
  /// rank 0 calls `before`; after the files are written, their thread calls what `before` returned.
  /// Collective.
  void save(Progress& progress, const std::function<std::function<void()>()>& before);

  // Rank 0 only:
  /// Reports the last checkpoint once it is written. With `wait`, waits for it.
  void finish(Progress& progress, bool wait);
  /// The newest checkpoint without skipped updates; empty: none, or it was deleted.
  std::filesystem::path good() const;
  std::string describe_good() const;

 private:
  std::optional<CheckpointFolder::Found> read_newest();
  std::optional<CheckpointFolder::Found> read_named();
  void begin_at(const CheckpointFolder::Found& found);
  void open_folder();
  Error with_good_checkpoint(const Error& error) const;

  const Options& options_;
  TrainingState& state_;
  Strategy* strategy_;
  Communicator world_;
  CollectiveErrors& errors_;
  std::string resume_;  ///< as --resume
  std::filesystem::path path_;
  models::TensorTable table_;  ///< outlives the strategy, since a thread may be writing
  CheckpointFolder folder_;
  CheckpointWriter writer_;
  std::filesystem::path good_;
  bool is_open_ = false;  ///< the folder, on rank 0
  bool resumed_ = false;
  bool resumes_own_ = false;  ///< --resume names a checkpoint of the output folder, or auto
  std::int64_t saved_step_ = -1;
};

}  // namespace muster
