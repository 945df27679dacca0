// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::compute {

/// One entry of a vocabulary or one class, counted from 0. Two bytes hold GPT-2's 50,257.
using Token = std::uint16_t;
inline constexpr int most_tokens_in_vocabulary = 1 << 16;

/// The largest tokenizer.json that is read.
inline constexpr std::size_t max_tokenizer_bytes = 256 << 20;

}  // namespace muster::compute
