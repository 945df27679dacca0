// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>

#include "checkpoint/checkpoint_folder.hpp"
#include "compute/arena.hpp"

namespace muster {

/// Writes checkpoints while training continues: start() lets a thread write the tensors in copy_buffers(). At
/// most one checkpoint is being written. Not thread-safe. The folder and the table must outlive this object,
/// and no other code may use the folder meanwhile.
class CheckpointWriter {
 public:
  struct Written {
    std::filesystem::path path;
    TrainingState state;
    double copy_seconds = 0;   ///< while training was stopped
    double write_seconds = 0;  ///< while training continued
  };

  CheckpointWriter(CheckpointFolder& folder, const models::TensorTable& table, CheckpointParts parts = {})
      : folder_(folder), table_(table), parts_(parts) {}
  // The destructor of a std::async future waits, so a started checkpoint is always completed.

  /// Buffers for a copy of all tensors. Call poll() or wait() until it returned the previous checkpoint,
  /// before you write to them.
  /// @throws std::bad_alloc, at the first call.
  TrainingTensors copy_buffers();
  /// Starts to write the tensors in copy_buffers() and returns. `copy_seconds`: time that the copy took. The
  /// thread calls `after` once the checkpoint is written; an exception of `after` is reported like a write
  /// error.
  void start(
      const TrainingState& state, double copy_seconds = 0, std::function<void()> after = [] {});
  /// The started checkpoint, once it is written; nothing when it is still being written or was returned
  /// before.
  /// @throws muster::Error when it could not be written.
  std::optional<Written> poll();
  /// Like poll(), but waits for the checkpoint.
  std::optional<Written> wait();

 private:
  Written write(TrainingState state, double copy_seconds, const std::function<void()>& after);

  CheckpointFolder& folder_;
  const models::TensorTable& table_;
  CheckpointParts parts_;
  compute::Arena<float> parameters_, moment1_, moment2_, outer_momentum_;  ///< the copy; stays allocated
  std::future<Written> writing_;  ///< last member: its destructor waits before the copy is freed
};

}  // namespace muster
