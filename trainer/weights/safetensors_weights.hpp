// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "checkpoint/safetensors.hpp"
#include "weights/elements.hpp"
#include "weights/weight_source.hpp"

namespace muster::weights {

/// One safetensors file with the parameters under Muster's names, and metadata: `model` (gpt_text()) and
/// `tokenizer`.
class SafetensorsWeights final : public WeightSource {
 public:
  /// @throws as open_weights().
  explicit SafetensorsWeights(const std::filesystem::path& path);
  void read(std::span<float> parameters) const override;

 private:
  SafetensorsFile file_;
};

/// Writes such a file, in float32 or bfloat16. It appears whole or not at all.
/// @throws muster::Error(ErrorCode::system)
void write_safetensors_weights(const std::filesystem::path& path, const models::GptConfig& config,
                               const std::string& tokenizer, std::span<const float> parameters,
                               ElementType type = ElementType::float32);

}  // namespace muster::weights
