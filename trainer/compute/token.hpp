// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::compute {

/// One entry of a vocabulary or one class, counted from 0.
using Token = std::uint32_t;
/// Llama 3 has 128,256 tokens, and the largest vocabularies in use have about 262,000.
inline constexpr int most_tokens_in_vocabulary = 1 << 20;
inline constexpr int most_classes = 1 << 16;

/// The largest tokenizer.json that is read.
inline constexpr std::size_t max_tokenizer_bytes = 256 << 20;

}  // namespace muster::compute
