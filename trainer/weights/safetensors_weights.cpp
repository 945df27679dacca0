// SPDX-License-Identifier: Apache-2.0
#include "weights/safetensors_weights.hpp"

#include <fmt/format.h>

#include "muster/error.hpp"
#include "weights/stored_tensors.hpp"

namespace muster::weights {
namespace {

constexpr const char* model_key = "model";
constexpr const char* tokenizer_key = "tokenizer";

std::string value_of(const SafetensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

}  // namespace

SafetensorsWeights::SafetensorsWeights(const std::filesystem::path& path) : file_(path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::usage, fmt::format("{} is not of muster-train export: {}", path.string(), why));
  };
  const auto config = models::parse_gpt_text(value_of(file_, model_key));
  if (!config) refuse("its metadata have no model (name the folder for a file of Hugging Face's)");
  config_ = *config;
  tokenizer_ = value_of(file_, tokenizer_key);
  const auto table = models::gpt_tensors(config_).tensors;
  for (const auto& tensor : table) {
    const SafetensorsTensor* found = file_.find(tensor.name);
    const bool readable = found != nullptr && (found->type == "F32" || found->type == "BF16");
    if (!readable || found->shape != tensor.shape)
      refuse(fmt::format("tensor {} is {}", tensor.name, found ? "of another type or shape" : "missing"));
  }
  if (file_.tensors().size() != table.size()) refuse("it holds tensors that the model does not have");
}

void SafetensorsWeights::read(std::span<float> parameters) const {
  std::vector<char> bytes;
  for (const auto& tensor : models::gpt_tensors(config_).tensors) {
    const SafetensorsTensor& found = *file_.find(tensor.name);
    bytes.resize(found.end - found.begin);
    file_.read(found, bytes.data());
    widen_elements(*find_element_type(found.type), bytes.data(), tensor.count,
                   parameters.data() + tensor.offset);
  }
}

void write_safetensors_weights(const std::filesystem::path& path, const models::GptConfig& config,
                               const std::string& tokenizer, std::span<const float> parameters,
                               ElementType type) {
  StoredTensors stored(type);
  for (const auto& tensor : models::gpt_tensors(config).tensors)
    stored.add(tensor.name, tensor.shape, parameters.subspan(tensor.offset, tensor.count));
  std::map<std::string, std::string> metadata{{model_key, models::gpt_text(config)}};
  if (!tokenizer.empty()) metadata[tokenizer_key] = tokenizer;
  write_safetensors(path, metadata, stored.sources());
}

}  // namespace muster::weights
