// SPDX-License-Identifier: Apache-2.0
#include "weights/huggingface_folder.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "checkpoint/training_state.hpp"
#include "compute/token.hpp"
#include "file/regular_file.hpp"
#include "files/atomic_folder.hpp"
#include "files/output_file.hpp"
#include "files/parse_json.hpp"
#include "muster/error.hpp"
#include "text/printable.hpp"
#include "tokenizer/byte_level.hpp"
#include "weights/elements.hpp"
#include "weights/gpt_names.hpp"
#include "weights/huggingface_config.hpp"
#include "weights/stored_tensors.hpp"

namespace muster::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* weights_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* tokenizer_name = "tokenizer.json";
constexpr std::size_t max_config_bytes = 1 << 20, max_index_bytes = 16 << 20;

/// The files that an index names, each once.
std::set<std::string> files_of_index(const std::string& text) {
  const auto json = parse_json<nlohmann::json>(text);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    throw std::runtime_error("it has no weight_map");
  std::set<std::string> files;
  for (const auto& file : *map) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != name.npos || printable(name) != name)
      throw std::runtime_error("its weight_map names no file of the folder");
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

HuggingfaceFolder::Found HuggingfaceFolder::find(const HuggingfaceTensor& wanted) const {
  for (const SafetensorsFile& file : files_) {
    for (const std::string& name : {wanted.full_name(), wanted.name}) {
      if (const SafetensorsTensor* tensor = file.find(name)) return {&file, tensor};
    }
  }
  return {};
}

void HuggingfaceFolder::check_names() const {
  const auto wanted = huggingface_tensors(config_);
  std::set<std::string> known{huggingface_output_layer};
  for (const HuggingfaceTensor& one : wanted) {
    known.insert({one.name, one.full_name()});
    const SafetensorsTensor* tensor = find(one).tensor;
    if (tensor == nullptr) refuse(fmt::format("tensor {} is missing", one.name));
    if (tensor->shape != one.shape)
      refuse(fmt::format("tensor {} has another shape than config.json says", one.name));
    if (!find_element_type(tensor->type))
      refuse(fmt::format("tensor {} is {}, and not F32, F16 or BF16", one.name, tensor->type));
  }
  const std::string& prefix = wanted.front().prefix;
  std::set<std::string> seen;
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) {
      const std::string shown = printable(tensor.name.substr(0, 60));
      if (!known.contains(tensor.name) && !is_huggingface_buffer(tensor.name))
        refuse(fmt::format("its tensor {} is none of a {}", shown, config_.llama ? "Llama" : "GPT-2"));
      const std::string name =
          tensor.name.starts_with(prefix) ? tensor.name.substr(prefix.size()) : tensor.name;
      if (!seen.insert(name).second) refuse(fmt::format("it has two tensors {}", shown));
    }
  }
}

void HuggingfaceFolder::read(std::span<float> parameters) const {
  const auto wanted = huggingface_tensors(config_);
  std::vector<char> bytes;
  std::vector<float> stored;
  for (const HuggingfaceTensor& one : wanted) {
    const auto [file, tensor] = find(one);
    float* const to = parameters.data() + one.offset;
    bytes.resize(tensor->end - tensor->begin);
    file->read(*tensor, bytes.data());
    const ElementType type = *find_element_type(tensor->type);
    if (!one.transposed) {
      widen_elements(type, bytes.data(), one.count, to);
      continue;
    }
    stored.resize(one.count);
    widen_elements(type, bytes.data(), one.count, stored.data());
    transpose(stored.data(), tensor->shape[0], tensor->shape[1], to);
  }
  if (models::TensorIndex(config_).output_layer() == 0)
    check_output_layer(parameters.subspan(wanted.front().offset, wanted.front().count));
}

// The output layer is tied to the token embedding, so a stored copy must be equal.
void HuggingfaceFolder::check_output_layer(std::span<const float> embedding) const {
  for (const SafetensorsFile& file : files_) {
    const SafetensorsTensor* tensor = file.find(huggingface_output_layer);
    if (tensor == nullptr) continue;
    const auto type = find_element_type(tensor->type);
    std::vector<char> bytes(tensor->end - tensor->begin);
    std::vector<float> stored(embedding.size());
    if (!type || bytes.size() != embedding.size() * bytes_of(*type))
      refuse(fmt::format("tensor {} has another shape than the embedding", huggingface_output_layer));
    file.read(*tensor, bytes.data());
    widen_elements(*type, bytes.data(), stored.size(), stored.data());
    if (std::memcmp(stored.data(), embedding.data(), embedding.size_bytes()) != 0)
      refuse(fmt::format("tensor {} differs from the embedding, to which this model's is tied",
                         huggingface_output_layer));
  }
}

void write_huggingface_folder(const fs::path& folder, const models::GptConfig& config,
                              const std::string& tokenizer, std::span<const float> parameters,
                              ElementType type) {
  StoredTensors stored(type);
  for (const HuggingfaceTensor& one : huggingface_tensors(config)) {
    const float* data = parameters.data() + one.offset;
    std::vector<float> transposed;
    if (one.transposed) {
      transposed.resize(one.count);
      transpose(data, one.shape[1], one.shape[0], transposed.data());
      data = transposed.data();
    }
    stored.add(one.full_name(), one.shape, {data, one.count}, one.transposed);
  }
  AtomicFolder whole(folder);
  const auto write = [&whole](const char* name, const std::string& text) {
    OutputFile file(whole / name);
    file.write(text);
    file.commit();
  };
  write_safetensors(whole / weights_name, {{"format", "pt"}}, stored.sources());
  write(HuggingfaceFolder::config_name, write_huggingface_config(config, type));
  if (is_tokenizer_file(tokenizer)) write(tokenizer_name, tokenizer);
  if (tokenizer == byte_tokenizer) write(tokenizer_name, tokenizer::byte_tokenizer_file());
  whole.commit();
}

}  // namespace muster::weights
