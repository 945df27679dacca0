// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <vector>

#include "checkpoint_folder.hpp"

namespace muster {

/// Writes checkpoints beside training: start() copies, a thread writes. One is in the making at the most. For
/// one thread; the folder and the table outlive it, and nobody else uses the folder meanwhile.
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

  /// Copies the tensors and returns; the copy is written by a thread. What was started before must have been
  /// taken with finished() or wait().
  void start(const TrainingState& state, const TrainingTensors& tensors);
  /// The checkpoint that was started, once it is written; nothing when it is not yet, or was told already.
  /// @throws muster::Error what kept it from being written.
  std::optional<Written> finished();
  /// The same, but waits for it.
  std::optional<Written> wait();

 private:
  Written write(TrainingState state, double copy_seconds);

  CheckpointFolder& folder_;
  const models::TensorTable& table_;
  std::vector<float> parameters_, moment1_, moment2_;  ///< the copy; stays allocated
  std::future<Written> writing_;  ///< last, so that it is waited for before the copy goes
};

}  // namespace muster
