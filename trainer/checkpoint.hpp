// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "models/tensor_table.hpp"

namespace muster {

/// Where a training run stands, beside its tensors. The position in the data is the seed and one number (data::Windows).
struct TrainingState {
  std::int64_t step = 0;     ///< updates done
  std::int64_t samples = 0;  ///< training samples taken; the next one has this number
  std::uint64_t seed = 0;
  std::int64_t batch = 0;  ///< global samples per step
  std::uint64_t data_hash = 0;
  std::string model;  ///< Workload::model_text()
};

/// The three arenas that a checkpoint holds, each laid out by the same table.
struct TrainingTensors {
  std::span<float> parameters, moment1, moment2;
};

/// Writes one safetensors file: parameters under their own names, AdamW's moments as adamw.m.NAME and
/// adamw.v.NAME, the state and a hash over all tensors in its metadata. Whole or not at all; an earlier file
/// of that path stays good when it fails.
/// @throws muster::Error(Fault::system)
void write_checkpoint(const std::filesystem::path& path, const TrainingState& state,
                      const models::TensorTable& table, const TrainingTensors& tensors);

/// Reads a checkpoint into arenas of `table`'s layout after checking that every name, type and shape matches,
/// and then the hash.
/// @throws muster::Error: usage (damaged, of another model, of another program), system (cannot be read). The
/// arenas' content is then unspecified.
TrainingState read_checkpoint(const std::filesystem::path& path, const std::string& model,
                              const models::TensorTable& table, const TrainingTensors& tensors);

}  // namespace muster
