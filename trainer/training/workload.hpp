// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compute/compute.hpp"
#include "config/options.hpp"
#include "models/memory_segment.hpp"
#include "training/model.hpp"

namespace muster {

/// What a run trains: the data, read already, and the network that --model names.
class Workload {
 public:
  virtual ~Workload() = default;

  /// For the checkpoint: runs whose texts are equal have the same tensors, e.g. "gpt layers=4 …".
  virtual std::string model_text() const = 0;
  /// For people, e.g. "gpt: 4 layers, 4 heads, width 128, context 64" and "45 bytes to train on, 5 held out".
  virtual std::string model_line() const = 0;
  virtual std::string data_line() const = 0;
  /// What one prediction is of: "byte", "token" or "image".
  virtual const char* unit() const noexcept = 0;
  virtual std::int64_t predictions_per_sample() const noexcept = 0;
  /// Floating-point operations of training on one sample.
  virtual double flops_per_sample() const = 0;
  virtual std::uint64_t samples_per_epoch() const noexcept = 0;
  /// Predictions that validation takes.
  virtual std::uint64_t held_out() const noexcept = 0;
  /// Over all that is read, equal where the data are.
  virtual std::uint64_t data_hash() const noexcept = 0;

  /// The tensors that build() lays out.
  virtual models::TensorTable table() const = 0;
  /// What build() asks for, to the byte, without asking for it, when the model computes in a type of
  /// `real_bytes`.
  virtual MemorySegments memory(std::uint64_t most_samples, std::size_t extra,
                                std::size_t real_bytes) const = 0;
  /// Room for `most_samples` samples at once and `extra` elements before the gradients (ModelTensors). It
  /// reads this workload's data, which must outlive it.
  virtual std::unique_ptr<Model> build(compute::Compute<float>& compute, std::uint64_t most_samples,
                                       std::size_t extra) const = 0;
  virtual std::unique_ptr<Model> build(compute::Compute<bfloat16>& compute, std::uint64_t most_samples,
                                       std::size_t extra) const = 0;
};

/// Reads --data for --model.
/// @throws muster::Error(ErrorCode::usage) when the data cannot be used.
std::unique_ptr<Workload> read_workload(const Options& options);

}  // namespace muster
