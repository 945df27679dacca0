// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "models/gpt_config.hpp"
#include "weights/elements.hpp"

namespace muster::weights {

/// Parses Hugging Face's config.json of a GPT-2 or a Llama. Settings that would change the computation must
/// have the values that Muster computes: for a GPT-2 gelu_new, an epsilon of 1e-5, an MLP of four widths and
/// tied embeddings, for a Llama silu, no biases, and rotary positions that are not scaled or have the type
/// "llama3".
/// @throws std::runtime_error with the reason, in one line.
models::GptConfig parse_huggingface_config(std::string_view text);

/// The text of a config.json with which transformers computes what Muster's model computes.
std::string write_huggingface_config(const models::GptConfig& config,
                                     ElementType type = ElementType::float32);

}  // namespace muster::weights
