// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "weights/elements.hpp"
#include "weights/gpt_names.hpp"
#include "weights/weight_source.hpp"

namespace muster::weights {

/// A GPT-2 or Llama as transformers' save_pretrained() writes it: config.json, and model.safetensors or the
/// files that model.safetensors.index.json names, in F32, F16 or BF16.
class HuggingfaceFolder final : public WeightSource {
 public:
  static constexpr const char* config_name = "config.json";

  /// @throws as open_weights().
  explicit HuggingfaceFolder(const std::filesystem::path& folder);
  void read(std::span<float> parameters) const override;

 private:
  struct Found {
    const SafetensorsFile* file = nullptr;
    const SafetensorsTensor* tensor = nullptr;
  };
  Found find(const HuggingfaceTensor& wanted) const;
  void open_files();
  void check_names() const;
  void check_output_layer(std::span<const float> embedding) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
};

/// Writes such a folder, in float32 or bfloat16. It appears whole or not at all. `tokenizer`: as
/// WeightSource::tokenizer().
/// @throws muster::Error(ErrorCode::system)
void write_huggingface_folder(const std::filesystem::path& folder, const models::GptConfig& config,
                              const std::string& tokenizer, std::span<const float> parameters,
                              ElementType type = ElementType::float32);

}  // namespace muster::weights
