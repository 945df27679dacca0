// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace muster {

/// State of a training run except its tensors: its position, and the settings that must be equal to resume
/// it. The seed and the number of samples are the position in the data (data::SampleWindows).
struct TrainingState {
  std::int64_t step = 0;     ///< updates done, skipped ones included
  std::int64_t samples = 0;  ///< training samples used; the next one has this number
  std::int64_t skipped = 0;  ///< number of updates skipped since the last finite one

  std::string model;  ///< Workload::model_text()
  std::uint64_t seed = 0;
  std::int64_t batch = 0;  ///< global sequences per step
  std::uint64_t data_hash = 0;

  // These change the bits of later steps, but the run stays the same one.
  std::int64_t world_size = 1;
  std::int64_t threads = 1;         ///< of rank 0
  std::int64_t chunk = 0;           ///< sequences in a chunk of the deterministic mode; 0: not that mode
  std::string dtype = "fp32";       ///< --dtype
  std::string optimizer = "adamw";  ///< --optimizer
  /// Further settings that later steps depend on (later_step_settings()), by name.
  std::map<std::string, std::string> settings;
  /// Autotuner::results(), in a file of its own; empty: the device chooses no algorithms.
  std::string autotune;
  /// How text becomes the model's tokens: "bytes"; the text of a tokenizer.json, in a file of its own; or
  /// empty: unknown, or not tokens.
  std::string tokenizer;

  bool operator==(const TrainingState&) const = default;
};

struct StoredState {
  TrainingState state;
  std::uint64_t tensor_hash = 0;     ///< over the checkpoint's tensors
  std::uint64_t tokenizer_hash = 0;  ///< hash_tokenizer(), if the tokenizer has a file
};

/// TrainingState::tokenizer for tokens that are the bytes of a text.
inline constexpr const char* byte_tokenizer = "bytes";
/// Thrown for the state of a later format than write_state() writes.
class VersionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What parse_state() returns for a tokenizer in a file of its own.
inline constexpr const char* tokenizer_file_kind = "tokenizer.json";
/// True for the text of a tokenizer.json.
inline bool is_tokenizer_file(std::string_view tokenizer) {
  return !tokenizer.empty() && tokenizer != byte_tokenizer;
}
std::uint64_t hash_tokenizer(std::string_view tokenizer);

/// Settings that both have, with different values: "--clip=1, now 0.5; --steps=100, now 200". Empty: none.
std::string describe_changed_settings(const TrainingState& before, const TrainingState& now);

/// The text of state.json: state without `autotune` and the tokenizer's text, hashes, and a checksum over
/// all.
std::string write_state(const StoredState& stored);
/// Parses the text of state.json. A tokenizer with a file is tokenizer_file_kind.
/// @throws VersionError; std::runtime_error with the reason when the text is not what write_state() wrote, up
/// to formatting.
StoredState parse_state(std::string_view text);

}  // namespace muster
