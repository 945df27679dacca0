// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compute/compute.hpp"
#include "config/options.hpp"
#include "models/memory_segment.hpp"
#include "training/model.hpp"
#include "training/stage_model.hpp"

namespace muster {

/// What a run trains: the data, already opened, and the network that --model names.
class Workload {
 public:
  virtual ~Workload() = default;

  /// For the checkpoint: equal texts mean equal tensors, e.g. "gpt layers=4 …".
  virtual std::string model_text() const = 0;
  /// One-line descriptions, e.g. "gpt: 4 layers, 2 heads, width 128, context 64" and "45 bytes to train on, 5
  /// held out".
  virtual std::string model_line() const = 0;
  virtual std::string data_line() const = 0;
  /// What one prediction predicts: "byte", "token" or "image".
  virtual const char* unit() const noexcept = 0;
  virtual std::int64_t predictions_per_sample() const noexcept = 0;
  /// Floating-point operations to train on one sample.
  virtual double flops_per_sample() const = 0;
  virtual std::uint64_t samples_per_epoch() const noexcept = 0;
  /// Number of held-out predictions.
  virtual std::uint64_t held_out() const noexcept = 0;
  /// How text becomes this data's tokens: TrainingState::tokenizer.
  virtual std::string tokenizer() const { return ""; }
  /// Hash of all data; equal data have equal hashes.
  virtual std::uint64_t data_hash() const noexcept = 0;

  /// The tensors that build() lays out.
  virtual models::TensorTable table() const = 0;
  /// The exact memory that build() allocates, for a model that computes in a type of `real_bytes`.
  virtual MemorySegments memory(std::uint64_t max_samples, std::size_t extra,
                                std::size_t real_bytes) const = 0;
  /// Builds a model for up to `max_samples` samples at once, with `extra` elements before the gradients
  /// (ModelTensors). The model reads this workload's data, so the workload must outlive it.
  virtual std::unique_ptr<Model> build(compute::Compute<float>& compute, std::uint64_t max_samples,
                                       std::size_t extra) const = 0;
  virtual std::unique_ptr<Model> build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                                       std::size_t extra) const = 0;

  /// Layers that a pipeline can divide; of a network on images blocks.
  virtual int layers() const noexcept = 0;
  virtual const char* layer_name() const noexcept { return "layer"; }
  /// The kind of each of them: layers of one kind have equal costs. Kinds are numbered from 0 on; the first
  /// layer and the last one are of kinds of their own.
  virtual std::vector<int> layer_kinds() const = 0;
  virtual StageTable stage_table(const models::LayerRange& layers) const = 0;
  /// Floating-point operations to train the stage on one sample.
  virtual double stage_flops(const models::LayerRange& layers) const = 0;
  /// The exact memory that build_stage() allocates.
  virtual MemorySegments stage_memory(const StageSettings& settings, std::size_t real_bytes) const = 0;
  virtual std::unique_ptr<StageModel> build_stage(compute::Compute<float>& compute,
                                                  const StageSettings& settings) const = 0;
  virtual std::unique_ptr<StageModel> build_stage(compute::Compute<bfloat16>& compute,
                                                  const StageSettings& settings) const = 0;
};

/// Opens --data for --model. `data_threads`: that decode pictures.
/// @throws muster::Error(ErrorCode::usage) when the data cannot be used, or make a setting ineffective.
std::unique_ptr<Workload> read_workload(const Options& options, int data_threads = 1);

}  // namespace muster
