// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "models/gpt_config.hpp"

namespace muster::weights {

/// A trained GPT's weights, opened for reading: they describe themselves.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  const models::GptConfig& config() const noexcept { return config_; }
  /// How text becomes tokens: TrainingState::tokenizer.
  const std::string& tokenizer() const noexcept { return tokenizer_; }
  /// Reads the parameters into an arena that is laid out by gpt_tensors(config()); gaps are left alone.
  /// @throws muster::Error: usage (damaged, or of another shape), system (cannot be read).
  virtual void read(std::span<float> parameters) const = 0;

 protected:
  models::GptConfig config_;
  std::string tokenizer_;
};

/// Opens a checkpoint of muster-train, the newest checkpoint of its output folder, a Hugging Face folder of a
/// GPT-2 or Llama (config.json and safetensors files), a .bin of llm.c, or a .safetensors file of
/// `muster-train export`.
/// @throws muster::Error: usage (none of these, damaged, or a model that Muster does not compute), system.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

/// Data of --data and how text becomes their tokens: TrainingState::tokenizer; empty: not known.
struct DataTokens {
  std::string path, tokenizer;
};

/// Refuses data whose tokens are others than those that the weights were trained on.
/// `from`: where the weights are.
/// @throws muster::Error(ErrorCode::usage).
void check_tokenizer(const DataTokens& data, const WeightSource& weights, const std::string& from);

}  // namespace muster::weights
