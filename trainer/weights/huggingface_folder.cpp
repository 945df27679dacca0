// SPDX-License-Identifier: Apache-2.0
#include "weights/huggingface_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "checkpoint/training_state.hpp"
#include "compute/token.hpp"
#include "file/regular_file.hpp"
#include "files/atomic_folder.hpp"
#include "files/output_file.hpp"
#include "muster/error.hpp"
#include "text/printable.hpp"
#include "tokenizer/byte_level.hpp"
#include "weights/elements.hpp"
#include "weights/gpt_names.hpp"
#include "weights/huggingface_config.hpp"

namespace muster::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* weights_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* tokenizer_name = "tokenizer.json";
constexpr const char* prefix = "transformer.";
constexpr const char* output_layer = "lm_head.weight";
constexpr std::size_t max_config_bytes = 1 << 20, max_index_bytes = 16 << 20;

/// The shape in the file.
std::vector<std::int64_t> foreign_shape(const models::Tensor& tensor, bool transposed) {
  std::vector<std::int64_t> shape = tensor.shape;
  if (transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

/// Masks that older versions of transformers stored with each layer.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

/// The files that an index names, each once.
std::set<std::string> files_of_index(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    throw std::runtime_error("it has no weight_map");
  std::set<std::string> files;
  for (const auto& file : *map) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos)
      throw std::runtime_error("its weight_map names a file outside the folder");
    files.insert(name);
  }
  return files;
}

}  // namespace

void HuggingfaceFolder::refuse(const std::string& why) const {
  throw Error(ErrorCode::usage, fmt::format("{} cannot be used: {}", folder_.string(), why));
}

HuggingfaceFolder::HuggingfaceFolder(const fs::path& folder) : folder_(folder) {
  const auto text = read_regular_file((folder / config_name).string(), max_config_bytes);
  if (!text) refuse(fmt::format("{} cannot be read, or is longer than 1 MiB", config_name));
  try {
    config_ = parse_huggingface_config(text->text);
  } catch (const std::runtime_error& reason) {
    refuse(fmt::format("{}: {}", config_name, reason.what()));
  }
  open_files();
  check_names();
  std::error_code ignored;
  if (!fs::exists(folder / tokenizer_name, ignored)) return;
  auto tokenizer = read_regular_file((folder / tokenizer_name).string(), compute::max_tokenizer_bytes);
  if (!tokenizer) refuse(fmt::format("{} cannot be read, or is longer than 256 MiB", tokenizer_name));
  tokenizer_ =
      tokenizer->text == tokenizer::byte_tokenizer_file() ? byte_tokenizer : std::move(tokenizer->text);
}

void HuggingfaceFolder::open_files() {
  std::error_code ignored;
  if (fs::exists(folder_ / weights_name, ignored)) {
    files_.emplace_back(folder_ / weights_name);
    return;
  }
  const auto text = read_regular_file((folder_ / index_name).string(), max_index_bytes);
  if (!text) {
    refuse(fmt::format("it has no {} and no {} (transformers' save_pretrained() writes one of them)",
                       weights_name, index_name));
  }
  try {
    for (const std::string& name : files_of_index(text->text)) files_.emplace_back(folder_ / name);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& reason) {
    refuse(fmt::format("{}: {}", index_name, reason.what()));
  }
}

HuggingfaceFolder::Found HuggingfaceFolder::find(const std::string& name) const {
  for (const SafetensorsFile& file : files_) {
    for (const std::string& full : {prefix + name, name}) {
      if (const SafetensorsTensor* tensor = file.find(full)) return {&file, tensor};
    }
  }
  return {};
}

void HuggingfaceFolder::check_names() const {
  const auto table = models::gpt_tensors(config_).tensors;
  const auto names = huggingface_names(config_);
  std::set<std::string> known{output_layer};
  for (std::size_t i = 0; i < table.size(); ++i) {
    known.insert({names[i].name, prefix + names[i].name});
    const SafetensorsTensor* tensor = find(names[i].name).tensor;
    if (tensor == nullptr) refuse(fmt::format("tensor {} is missing", names[i].name));
    if (tensor->shape != foreign_shape(table[i], names[i].transposed))
      refuse(fmt::format("tensor {} has another shape than config.json says", names[i].name));
    if (!find_element_type(tensor->type))
      refuse(fmt::format("tensor {} is {}, and not F32, F16 or BF16", names[i].name, tensor->type));
  }
  std::set<std::string> seen;
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) {
      const std::string shown = printable(tensor.name.substr(0, 60));
      if (!known.contains(tensor.name) && !is_mask(tensor.name))
        refuse(fmt::format("its tensor {} is none of a GPT-2", shown));
      const std::string name =
          tensor.name.starts_with(prefix) ? tensor.name.substr(std::strlen(prefix)) : tensor.name;
      if (!seen.insert(name).second) refuse(fmt::format("it has two tensors {}", shown));
    }
  }
}

void HuggingfaceFolder::read(std::span<float> parameters) const {
  const auto table = models::gpt_tensors(config_).tensors;
  const auto names = huggingface_names(config_);
  std::vector<char> bytes;
  std::vector<float> stored;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [file, tensor] = find(names[i].name);
    float* const to = parameters.data() + table[i].offset;
    bytes.resize(tensor->end - tensor->begin);
    file->read(*tensor, bytes.data());
    const ElementType type = *find_element_type(tensor->type);
    if (!names[i].transposed) {
      widen_elements(type, bytes.data(), table[i].count, to);
      continue;
    }
    stored.resize(table[i].count);
    widen_elements(type, bytes.data(), table[i].count, stored.data());
    transpose(stored.data(), tensor->shape[0], tensor->shape[1], to);
  }
  check_output_layer(parameters.subspan(table.front().offset, table.front().count));
}

// The output layer is tied to the token embedding, so a stored copy must be equal.
void HuggingfaceFolder::check_output_layer(std::span<const float> embedding) const {
  for (const SafetensorsFile& file : files_) {
    const SafetensorsTensor* tensor = file.find(output_layer);
    if (tensor == nullptr) continue;
    const auto type = find_element_type(tensor->type);
    std::vector<char> bytes(tensor->end - tensor->begin);
    std::vector<float> stored(embedding.size());
    if (!type || bytes.size() != embedding.size() * bytes_of(*type))
      refuse(fmt::format("tensor {} has another shape than the embedding", output_layer));
    file.read(*tensor, bytes.data());
    widen_elements(*type, bytes.data(), stored.size(), stored.data());
    if (std::memcmp(stored.data(), embedding.data(), embedding.size_bytes()) != 0)
      refuse(fmt::format("tensor {} differs from the embedding, to which GPT-2's is tied", output_layer));
  }
}

void write_huggingface_folder(const fs::path& folder, const models::GptConfig& config,
                              const std::string& tokenizer, std::span<const float> parameters) {
  const auto table = models::gpt_tensors(config).tensors;
  const auto names = huggingface_names(config);
  std::vector<std::vector<float>> transposed(table.size());
  std::vector<SafetensorsSource> sources;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const float* data = parameters.data() + table[i].offset;
    if (names[i].transposed) {
      transposed[i].resize(table[i].count);
      transpose(data, table[i].shape[0], table[i].shape[1], transposed[i].data());
      data = transposed[i].data();
    }
    sources.push_back({prefix + names[i].name, "F32", foreign_shape(table[i], names[i].transposed), data,
                       table[i].count * sizeof(float)});
  }
  AtomicFolder whole(folder);
  const auto write = [&whole](const char* name, const std::string& text) {
    OutputFile file(whole / name);
    file.write(text);
    file.commit();
  };
  write_safetensors(whole / weights_name, {{"format", "pt"}}, sources);
  write(HuggingfaceFolder::config_name, write_huggingface_config(config));
  if (is_tokenizer_file(tokenizer)) write(tokenizer_name, tokenizer);
  if (tokenizer == byte_tokenizer) write(tokenizer_name, tokenizer::byte_tokenizer_file());
  whole.commit();
}

}  // namespace muster::weights
