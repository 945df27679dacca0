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

/// Writes checkpoints beside training: what room() holds when start() is called, a thread writes. One is in
/// the making at the most. For one thread; the folder and the table outlive it, and nobody else uses the
/// folder meanwhile.
class CheckpointWriter {
 public:
  struct Written {
    std::filesystem::path path;
    TrainingState state;
    double copy_seconds = 0;   ///< for which training stood still
    double write_seconds = 0;  ///< beside training
  };

  CheckpointWriter(CheckpointFolder& folder, const models::TensorTable& table)
      : folder_(folder), table_(table) {}
  // A std::future of std::async waits in its destructor: what was begun is written to its end.

  /// Whole arenas for a copy of the tensors. What was started before must have been taken with finished() or
  /// wait().
  /// @throws std::bad_alloc, at the first call.
  TrainingTensors room();
  /// Begins to write what is in room(), and returns. `copy_seconds`: what it took to bring it there. `after`
  /// is called by the thread once it is written, and may throw as if it was part of that.
  void start(
      const TrainingState& state, double copy_seconds = 0, std::function<void()> after = [] {});
  /// The checkpoint that was started, once it is written; nothing when it is not yet, or was told already.
  /// @throws muster::Error what kept it from being written.
  std::optional<Written> finished();
  /// The same, but waits for it.
  std::optional<Written> wait();

 private:
  Written write(TrainingState state, double copy_seconds, const std::function<void()>& after);

  CheckpointFolder& folder_;
  const models::TensorTable& table_;
  compute::Arena<float> parameters_, moment1_, moment2_;  ///< the copy; stays allocated
  std::future<Written> writing_;  ///< last, so that it is waited for before the copy goes
};

}  // namespace muster
