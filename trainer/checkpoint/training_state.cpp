// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/training_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "files/hash.hpp"
#include "files/parse_json.hpp"
#include "text/printable.hpp"

namespace muster {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingState, step, samples, skipped, model, seed, batch, world_size,
                                   threads, chunk, dtype, optimizer, settings)

namespace {

using Json = nlohmann::json;

constexpr int state_format = 2;
constexpr std::string_view format_prefix = "muster-train ";

std::string format_name(int format) { return fmt::format("{}{}", format_prefix, format); }

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

/// The fields but the hashes. nlohmann-json would cut fractions off and wrap large numbers.
TrainingState get_state(const Json& json) {
  const bool has_fraction =
      std::any_of(json.begin(), json.end(), [](const Json& value) { return value.is_number_float(); });
  if (has_fraction) throw std::runtime_error("it has a number with a fraction");
  if (const auto seed = json.find("seed"); seed != json.end() && !seed->is_number_unsigned())
    throw std::runtime_error("its seed is negative or no number");
  try {
    auto state = json.get<TrainingState>();
    if (std::min({state.step, state.samples, state.skipped, state.batch, state.world_size, state.threads,
                  state.chunk}) < 0)
      throw std::runtime_error("it has a count that is negative or too large");
    return state;
  } catch (const Json::exception& error) {
    throw std::runtime_error(fmt::format("a field is missing or of another type: {}", error.what()));
  }
}

void check_format(const std::string& found) {
  if (found == format_name(state_format)) return;
  int format = 0;
  const char* const end = found.data() + found.size();
  if (found.starts_with(format_prefix) &&
      std::from_chars(found.data() + format_prefix.size(), end, format).ec == std::errc() &&
      found == format_name(format) && format > state_format) {
    throw VersionError(
        fmt::format("its format is '{}', and this one reads '{}'", found, format_name(state_format)));
  }
  throw std::runtime_error(fmt::format("its format is not '{}'", format_name(state_format)));
}

StoredState read_fields(Json json) {
  if (!json.is_object()) throw std::runtime_error("it is not a JSON object");
  check_format(get_text(json, "format"));
  const std::string checksum = get_text(json, "checksum");
  json.erase("checksum");
  if (checksum != compute_checksum(json)) throw std::runtime_error("its checksum does not match its content");
  // Older files have none of these.
  if (!json.contains("dtype")) json["dtype"] = "fp32";
  if (!json.contains("optimizer")) json["optimizer"] = "adamw";
  if (!json.contains("tokenizer")) json["tokenizer"] = "";
  if (!json.contains("settings")) json["settings"] = Json::object();
  StoredState stored{get_state(json), get_hex(json, "tensor_hash")};
  stored.state.data_hash = get_hex(json, "data_hash");
  stored.state.tokenizer = get_text(json, "tokenizer");
  if (stored.state.tokenizer == tokenizer_file_kind)
    stored.tokenizer_hash = get_hex(json, "tokenizer_hash");
  else if (stored.state.tokenizer != byte_tokenizer && !stored.state.tokenizer.empty())
    throw std::runtime_error("its tokenizer is of an unknown kind");
  return stored;
}

}  // namespace

std::uint64_t hash_tokenizer(std::string_view tokenizer) {
  return hash_bytes(tokenizer.data(), tokenizer.size());
}

std::string describe_changed_settings(const TrainingState& before, const TrainingState& now) {
  std::string text;
  for (const auto& [name, value] : before.settings) {
    const auto found = now.settings.find(name);
    if (found == now.settings.end() || found->second == value) continue;
    text += fmt::format("{}--{}={}, now {}", text.empty() ? "" : "; ", name, value,
                        found->second.empty() ? "not set" : found->second);
  }
  return printable(std::move(text));
}

std::string write_state(const StoredState& stored) {
  Json json = stored.state;
  json["format"] = format_name(state_format);
  json["data_hash"] = hex(stored.state.data_hash);
  json["tensor_hash"] = hex(stored.tensor_hash);
  const std::string& tokenizer = stored.state.tokenizer;
  json["tokenizer"] = is_tokenizer_file(tokenizer) ? tokenizer_file_kind : tokenizer;
  if (is_tokenizer_file(tokenizer)) json["tokenizer_hash"] = hex(hash_tokenizer(tokenizer));
  json["checksum"] = compute_checksum(json);
  return json.dump(1) + '\n';
}

StoredState parse_state(std::string_view text) {
  auto json = parse_json<Json>(text);
  return read_fields(std::move(json));
}

}  // namespace muster
