// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/training_state.hpp"
#include "models/tensor_table.hpp"
#include "muster/error.hpp"

namespace muster {

/// The arenas of a checkpoint, each laid out by the same table. AdamW has two moments; SGD has its momentum,
/// moment1, alone. Only some strategies have an outer momentum. Checkpoint::read() leaves out those that are
/// empty.
struct TrainingTensors {
  std::span<float> parameters{}, moment1{}, moment2{}, outer_momentum{};
};

/// Which arenas a checkpoint has beside the parameters.
struct CheckpointParts {
  std::size_t moments = 2;  ///< 2 for AdamW, 1 for SGD
  bool outer_momentum = false;
};

/// Writes a folder with tensors.safetensors (parameters under their own names, AdamW's moments as
/// adamw.m.NAME and adamw.v.NAME, SGD's momentum as sgd.momentum.NAME, the outer momentum, unless it is
/// empty, as outer.momentum.NAME), state.json (the state and a hash over all tensors) and, if the state has
/// them, autotune.json and tokenizer.json. The folder appears whole or not at all; on an error, an earlier
/// folder of that path stays good.
/// @throws muster::Error(ErrorCode::system)
void write_checkpoint(const std::filesystem::path& folder, const TrainingState& state,
                      const models::TensorTable& table, const TrainingTensors& tensors);

/// A newer muster-train wrote the checkpoint. It can be good.
class CheckpointVersionError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint, opened for reading.
class Checkpoint {
 public:
  /// Reads state.json, autotune.json, tokenizer.json and the header of the tensors' file.
  /// @throws CheckpointVersionError; muster::Error: usage (damaged, or written by another program), system
  /// (cannot be read).
  explicit Checkpoint(const std::filesystem::path& folder);

  /// True when the folder has a state.json, whether it is good or not.
  static bool is_checkpoint(const std::filesystem::path& folder);

  const TrainingState& state() const noexcept { return stored_.state; }
  /// Checks that every name, type and shape matches, reads the tensors into arenas of `table`'s layout, then
  /// checks the hash. An outer momentum that the checkpoint lacks is set to zero.
  /// @throws muster::Error as the constructor; the arenas' content is then unspecified.
  void read(const models::TensorTable& table, const TrainingTensors& tensors) const;

 private:
  std::filesystem::path folder_;
  StoredState stored_;
  SafetensorsFile file_;
};

}  // namespace muster
