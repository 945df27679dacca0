// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/training_state.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "files/hash.hpp"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr const char* state_format = "muster-train 2";

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::string compute_checksum(const Json& without_it) {
  const std::string text = without_it.dump();
  return hex(hash_bytes(text.data(), text.size()));
}

std::string get_text(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    throw std::runtime_error(fmt::format("it has no '{}'", key));
  return found->get<std::string>();
}

std::uint64_t get_hex(const Json& json, const char* key) {
  const std::string text = get_text(json, key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || text != hex(value))
    throw std::runtime_error(fmt::format("'{}' is not a hash", key));
  return value;
}

std::uint64_t get_unsigned(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned())
    throw std::runtime_error(fmt::format("it has no '{}'", key));
  return found->get<std::uint64_t>();
}

std::int64_t get_count(const Json& json, const char* key) {
  const std::uint64_t value = get_unsigned(json, key);
  if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    throw std::runtime_error(fmt::format("'{}' is too large", key));
  return static_cast<std::int64_t>(value);
}

StoredState read_fields(Json json) {
  if (!json.is_object()) throw std::runtime_error("it is not a JSON object");
  if (get_text(json, "format") != state_format)
    throw std::runtime_error(fmt::format("its format is not '{}'", state_format));
  const std::string checksum = get_text(json, "checksum");
  json.erase("checksum");
  if (checksum != compute_checksum(json)) throw std::runtime_error("its checksum does not match its content");
  StoredState stored;
  TrainingState& state = stored.state;
  state.step = get_count(json, "step");
  state.samples = get_count(json, "samples");
  state.skipped = get_count(json, "skipped");
  state.model = get_text(json, "model");
  state.seed = get_unsigned(json, "seed");
  state.batch = get_count(json, "batch");
  state.data_hash = get_hex(json, "data_hash");
  state.world_size = get_count(json, "world_size");
  state.threads = get_count(json, "threads");
  state.chunk = get_count(json, "chunk");
  if (json.contains("dtype")) state.dtype = get_text(json, "dtype");  // older files have no dtype: fp32
  stored.tensor_hash = get_hex(json, "tensor_hash");
  return stored;
}

}  // namespace

std::string write_state(const StoredState& stored) {
  const TrainingState& state = stored.state;
  Json json{{"format", state_format},
            {"step", static_cast<std::uint64_t>(state.step)},
            {"samples", static_cast<std::uint64_t>(state.samples)},
            {"skipped", static_cast<std::uint64_t>(state.skipped)},
            {"model", state.model},
            {"seed", state.seed},
            {"batch", static_cast<std::uint64_t>(state.batch)},
            {"data_hash", hex(state.data_hash)},
            {"world_size", static_cast<std::uint64_t>(state.world_size)},
            {"threads", static_cast<std::uint64_t>(state.threads)},
            {"chunk", static_cast<std::uint64_t>(state.chunk)},
            {"dtype", state.dtype},
            {"tensor_hash", hex(stored.tensor_hash)}};
  json["checksum"] = compute_checksum(json);
  return json.dump(1) + '\n';
}

StoredState parse_state(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  // nlohmann-json treats a NUL as the end of its input.
  if (json.is_discarded() || text.find('\0') != text.npos) throw std::runtime_error("it is not valid JSON");
  return read_fields(std::move(json));
}

}  // namespace muster
