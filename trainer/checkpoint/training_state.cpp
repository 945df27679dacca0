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

std::string checksum_of(const Json& without_it) {
  const std::string text = without_it.dump();
  return hex(hash_bytes(text.data(), text.size()));
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    throw std::runtime_error(fmt::format("it has no '{}'", key));
  return found->get<std::string>();
}

std::uint64_t hex_at(const Json& json, const char* key) {
  const std::string text = text_at(json, key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || text != hex(value))
    throw std::runtime_error(fmt::format("'{}' is no hash", key));
  return value;
}

std::uint64_t unsigned_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned())
    throw std::runtime_error(fmt::format("it has no '{}'", key));
  return found->get<std::uint64_t>();
}

std::int64_t count_at(const Json& json, const char* key) {
  const std::uint64_t value = unsigned_at(json, key);
  if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    throw std::runtime_error(fmt::format("'{}' is too large", key));
  return static_cast<std::int64_t>(value);
}

SealedState read_fields(Json json) {
  if (!json.is_object()) throw std::runtime_error("it is no JSON object");
  if (text_at(json, "format") != state_format)
    throw std::runtime_error(fmt::format("its format is not '{}'", state_format));
  const std::string checksum = text_at(json, "checksum");
  json.erase("checksum");
  if (checksum != checksum_of(json)) throw std::runtime_error("its checksum does not fit its content");
  SealedState sealed;
  TrainingState& state = sealed.state;
  state.step = count_at(json, "step");
  state.samples = count_at(json, "samples");
  state.skipped = count_at(json, "skipped");
  state.model = text_at(json, "model");
  state.seed = unsigned_at(json, "seed");
  state.batch = count_at(json, "batch");
  state.data_hash = hex_at(json, "data_hash");
  state.world_size = count_at(json, "world_size");
  state.threads = count_at(json, "threads");
  state.chunk = count_at(json, "chunk");
  if (json.contains("dtype")) state.dtype = text_at(json, "dtype");  // there was fp32 only before it
  sealed.tensor_hash = hex_at(json, "tensor_hash");
  return sealed;
}

}  // namespace

std::string write_state(const SealedState& sealed) {
  const TrainingState& state = sealed.state;
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
            {"tensor_hash", hex(sealed.tensor_hash)}};
  json["checksum"] = checksum_of(json);
  return json.dump(1) + '\n';
}

SealedState parse_state(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  // To nlohmann-json a NUL is the end of its input.
  if (json.is_discarded() || text.find('\0') != text.npos) throw std::runtime_error("it is not valid JSON");
  return read_fields(std::move(json));
}

}  // namespace muster
