// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "compute/token.hpp"
#include "file/regular_file.hpp"
#include "files/atomic_folder.hpp"
#include "files/hash.hpp"
#include "files/output_file.hpp"
#include "muster/error.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

constexpr const char* tensors_name = "tensors.safetensors";
constexpr const char* state_name = "state.json";
constexpr const char* autotune_name = "autotune.json";
constexpr const char* tokenizer_name = "tokenizer.json";
constexpr std::size_t max_state_bytes = 65536;  // write_checkpoint() writes about 400 bytes
constexpr std::size_t max_autotune_bytes = 16 << 20;

struct Part {
  const char* prefix;
  std::span<float> arena;
};

constexpr const char* outer_prefix = "outer.momentum.";

std::vector<Part> list_parts(const TrainingTensors& tensors, const std::string& optimizer, bool outer) {
  std::vector<Part> parts{{"", tensors.parameters}};
  if (optimizer == "sgd") {
    parts.push_back({"sgd.momentum.", tensors.moment1});
  } else {
    parts.push_back({"adamw.m.", tensors.moment1});
    parts.push_back({"adamw.v.", tensors.moment2});
  }
  if (outer) parts.push_back({outer_prefix, tensors.outer_momentum});
  return parts;
}

std::uint64_t hash_tensors(const models::TensorTable& table, const std::vector<Part>& parts) {
  std::uint64_t hash = 0;
  for (const Part& part : parts) {
    for (const auto& tensor : table.tensors) {
      hash = hash_bytes(part.arena.data() + tensor.offset, tensor.count * sizeof(float), hash);
    }
  }
  return hash;
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("{} is damaged or not a checkpoint: {}", folder.string(), why));
}

std::string read_text(const fs::path& folder, const char* name, std::size_t max_bytes) {
  auto file = read_regular_file((folder / name).string(), max_bytes);
  if (!file) refuse(folder, fmt::format("{} cannot be read, or is too long", name));
  return std::move(file->text);
}

void read_tokenizer(const fs::path& folder, StoredState& stored) {
  if (stored.state.tokenizer != tokenizer_file_kind) return;
  stored.state.tokenizer = read_text(folder, tokenizer_name, compute::max_tokenizer_bytes);
  if (hash_tokenizer(stored.state.tokenizer) != stored.tokenizer_hash)
    refuse(folder, fmt::format("{} does not match the hash in {}", tokenizer_name, state_name));
}

StoredState read_state(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / state_name, error))
    refuse(folder, fmt::format("it has no {}", state_name));
  const std::string text = read_text(folder, state_name, max_state_bytes);
  try {
    StoredState stored = parse_state(text);
    if (fs::is_regular_file(folder / autotune_name, error))
      stored.state.autotune = read_text(folder, autotune_name, max_autotune_bytes);
    read_tokenizer(folder, stored);
    return stored;
  } catch (const VersionError& reason) {
    throw CheckpointVersionError(ErrorCode::usage,
                                 fmt::format("a newer muster-train wrote {} ({}: {}): use the newer one",
                                             folder.string(), state_name, reason.what()));
  } catch (const std::runtime_error& reason) {
    refuse(folder, fmt::format("{}: {}", state_name, reason.what()));
  }
}

void check_shapes(const SafetensorsFile& file, const fs::path& folder, const models::TensorTable& table,
                  const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    for (const auto& tensor : table.tensors) {
      const SafetensorsTensor* found = file.find(part.prefix + tensor.name);
      if (!found || found->type != "F32" || found->shape != tensor.shape) {
        refuse(folder, fmt::format("tensor {}{} is {}", part.prefix, tensor.name,
                                   found ? "of another type or shape than the model's" : "missing"));
      }
    }
  }
  if (file.tensors().size() != parts.size() * table.tensors.size())
    refuse(folder, "it holds tensors that the model does not have");
}

}  // namespace

void write_checkpoint(const fs::path& folder, const TrainingState& state, const models::TensorTable& table,
                      const TrainingTensors& tensors) {
  std::vector<SafetensorsSource> sources;
  const auto parts = list_parts(tensors, state.optimizer, !tensors.outer_momentum.empty());
  for (const Part& part : parts) {
    for (const auto& tensor : table.tensors) {
      sources.push_back({part.prefix + tensor.name, "F32", tensor.shape, part.arena.data() + tensor.offset,
                         tensor.count * sizeof(float)});
    }
  }
  AtomicFolder whole(folder);
  write_safetensors(whole / tensors_name, {{"model", state.model}, {"step", std::to_string(state.step)}},
                    sources);
  const auto write = [&whole](const char* name, const std::string& text) {
    OutputFile file(whole / name);
    file.write(text);
    file.commit();
  };
  if (!state.autotune.empty()) write(autotune_name, state.autotune);
  if (is_tokenizer_file(state.tokenizer)) write(tokenizer_name, state.tokenizer);
  write(state_name, write_state({state, hash_tensors(table, parts)}));
  whole.commit();
}

Checkpoint::Checkpoint(const fs::path& folder)
    : folder_(folder), stored_(read_state(folder)), file_(folder / tensors_name) {}

bool Checkpoint::is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / state_name, ignored);
}

void Checkpoint::read(const models::TensorTable& table, const TrainingTensors& tensors) const {
  const bool has_outer =
      !table.tensors.empty() && file_.find(outer_prefix + table.tensors.front().name) != nullptr;
  if (!has_outer) std::fill(tensors.outer_momentum.begin(), tensors.outer_momentum.end(), 0.0f);
  const auto parts = list_parts(tensors, stored_.state.optimizer, has_outer);
  check_shapes(file_, folder_, table, parts);
  std::uint64_t hash = 0;
  std::vector<float> left_out;
  for (const Part& part : parts) {
    for (const auto& tensor : table.tensors) {
      if (part.arena.empty()) left_out.resize(std::max(left_out.size(), tensor.count));
      float* const to = part.arena.empty() ? left_out.data() : part.arena.data() + tensor.offset;
      file_.read(*file_.find(part.prefix + tensor.name), to);
      hash = hash_bytes(to, tensor.count * sizeof(float), hash);
    }
  }
  if (hash != stored_.tensor_hash)
    refuse(folder_, fmt::format("its tensors do not match the hash in {}", state_name));
}

}  // namespace muster
