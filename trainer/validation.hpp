// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "models/gpt.hpp"
#include "muster/average.hpp"

namespace muster {

/// This rank's share of the loss over held-out text: cross-entropy in nats, weighted with predicted bytes. text[0] only gives context to text[1]; every later byte
/// is predicted exactly once over all ranks, from up to config.context bytes before it in its window. Windows
/// go to ranks in contiguous, possibly unequal shares, and the last window may be shorter.
Average validation_share(models::Gpt<float>& model, std::span<const std::uint8_t> text, int rank, int ranks);

}  // namespace muster
