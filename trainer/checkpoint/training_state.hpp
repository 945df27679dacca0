// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

/// Where a training run stands, beside its tensors, and what must be the same for it to go on as itself. The
/// position in the data is the seed and one number (data::Windows).
struct TrainingState {
  std::int64_t step = 0;     ///< updates done, skipped ones included
  std::int64_t samples = 0;  ///< training samples taken; the next one has this number
  std::int64_t skipped = 0;  ///< the last so many updates were skipped, being not finite

  std::string model;  ///< Workload::model_text()
  std::uint64_t seed = 0;
  std::int64_t batch = 0;  ///< global sequences per step
  std::uint64_t data_hash = 0;

  // These change the bits of what follows, not its meaning.
  std::int64_t world_size = 1;
  std::int64_t threads = 1;    ///< of rank 0
  std::int64_t chunk = 0;      ///< sequences in a chunk of the deterministic mode; 0: not that mode
  std::string dtype = "fp32";  ///< --dtype

  bool operator==(const TrainingState&) const = default;
};

struct SealedState {
  TrainingState state;
  std::uint64_t tensor_hash = 0;  ///< over the tensors that belong to it
};

/// state.json: both, and a checksum over them.
std::string write_state(const SealedState& sealed);
/// @throws std::runtime_error with the reason, when the text is not what write_state() wrote to the last bit
/// that means something.
SealedState parse_state(std::string_view text);

}  // namespace muster
