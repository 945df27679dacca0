// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/training_state.hpp"
#include "models/tensor_table.hpp"

namespace muster {

/// The three arenas that a checkpoint holds, each laid out by the same table.
struct TrainingTensors {
  std::span<float> parameters, moment1, moment2;
};

/// Writes a folder with tensors.safetensors (parameters under their own names, AdamW's moments as
/// adamw.m.NAME and adamw.v.NAME) and state.json (the state and a hash over all tensors). It appears whole or
/// not at all; an earlier folder of that path stays good when it fails.
/// @throws muster::Error(ErrorCode::system)
void write_checkpoint(const std::filesystem::path& folder, const TrainingState& state,
                      const models::TensorTable& table, const TrainingTensors& tensors);

/// A checkpoint that is opened for reading.
class Checkpoint {
 public:
  /// Reads state.json, and of the tensors' file its header.
  /// @throws muster::Error: usage (damaged, or of another program), system (cannot be read).
  explicit Checkpoint(const std::filesystem::path& folder);

  const TrainingState& state() const noexcept { return sealed_.state; }
  /// Reads into arenas of `table`'s layout after checking that every name, type and shape matches, and then
  /// checks the hash.
  /// @throws muster::Error as the constructor; the arenas' content is then unspecified.
  void read(const models::TensorTable& table, const TrainingTensors& tensors) const;

 private:
  std::filesystem::path folder_;
  SealedState sealed_;
  SafetensorsFile file_;
};

}  // namespace muster
