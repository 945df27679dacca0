// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "hash.hpp"
#include "muster/error.hpp"
#include "safetensors.hpp"

namespace muster {
namespace {

constexpr const char* format_name = "muster-train 1";

struct Part {
  const char* prefix;
  std::span<float> arena;
};

std::array<Part, 3> parts_of(const TrainingTensors& tensors) {
  return {{{"", tensors.parameters}, {"adamw.m.", tensors.moment1}, {"adamw.v.", tensors.moment2}}};
}

std::uint64_t hash_of(const models::TensorTable& table, const TrainingTensors& tensors) {
  std::uint64_t hash = 0;
  for (const Part& part : parts_of(tensors)) {
    for (const auto& tensor : table.tensors) {
      hash = hash_bytes(part.arena.data() + tensor.offset, tensor.count * sizeof(float), hash);
    }
  }
  return hash;
}

template <typename Integer>
Integer number_of(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& key) {
  const auto found = file.metadata().find(key);
  Integer value{};
  if (found != file.metadata().end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  }
  throw Error(Fault::usage,
              fmt::format("{} has no valid '{}' in its metadata: it is damaged", path.string(), key));
}

void check_shapes(const SafetensorsFile& file, const std::filesystem::path& path,
                  const models::TensorTable& table) {
  for (const Part& part : parts_of({})) {
    for (const auto& tensor : table.tensors) {
      const SafetensorsTensor* found = file.find(part.prefix + tensor.name);
      if (!found || found->type != "F32" || found->shape != tensor.shape) {
        throw Error(Fault::usage,
                    fmt::format("{}: tensor {}{} is {}, but this model needs another", path.string(),
                                part.prefix, tensor.name, found ? "of another type or shape" : "missing"));
      }
    }
  }
  if (file.tensors().size() != 3 * table.tensors.size()) {
    throw Error(Fault::usage, fmt::format("{} holds tensors that this model does not have", path.string()));
  }
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const TrainingState& state,
                      const models::TensorTable& table, const TrainingTensors& tensors) {
  std::vector<SafetensorsSource> sources;
  for (const Part& part : parts_of(tensors)) {
    for (const auto& tensor : table.tensors) {
      sources.push_back({part.prefix + tensor.name, "F32", tensor.shape, part.arena.data() + tensor.offset,
                         tensor.count * sizeof(float)});
    }
  }
  write_safetensors(path,
                    {{"format", format_name},
                     {"model", state.model},
                     {"step", std::to_string(state.step)},
                     {"samples", std::to_string(state.samples)},
                     {"seed", std::to_string(state.seed)},
                     {"batch", std::to_string(state.batch)},
                     {"data_hash", fmt::format("{:016x}", state.data_hash)},
                     {"tensor_hash", fmt::format("{:016x}", hash_of(table, tensors))}},
                    sources);
}

TrainingState read_checkpoint(const std::filesystem::path& path, const std::string& model,
                              const models::TensorTable& table, const TrainingTensors& tensors) {
  const SafetensorsFile file(path);
  const auto text_of = [&](const std::string& key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (text_of("format") != format_name) {
    throw Error(Fault::usage, fmt::format("{} is not a checkpoint of muster-train", path.string()));
  }
  if (text_of("model") != model) {
    throw Error(
        Fault::usage,
        fmt::format("{} holds another model (its metadata does not say '{}'): use the same --model and "
                    "sizes, another --output, or --resume=off",
                    path.string(), model));
  }
  check_shapes(file, path, table);
  TrainingState state;
  state.model = model;
  state.step = number_of<std::int64_t>(file, path, "step");
  state.samples = number_of<std::int64_t>(file, path, "samples");
  state.seed = number_of<std::uint64_t>(file, path, "seed");
  state.batch = number_of<std::int64_t>(file, path, "batch");
  const std::string data_hash = text_of("data_hash");
  std::from_chars(data_hash.data(), data_hash.data() + data_hash.size(), state.data_hash, 16);
  for (const Part& part : parts_of(tensors)) {
    for (const auto& tensor : table.tensors)
      file.read(*file.find(part.prefix + tensor.name), part.arena.data() + tensor.offset);
  }
  if (text_of("tensor_hash") != fmt::format("{:016x}", hash_of(table, tensors))) {
    throw Error(
        Fault::usage,
        fmt::format("{} is damaged: its tensors do not have the hash that its metadata says", path.string()));
  }
  return state;
}

}  // namespace muster
