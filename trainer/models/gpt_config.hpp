// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/tensor_table.hpp"

namespace muster::models {

struct GptConfig {
  int layers = 4;
  int heads = 2;  ///< 64 wide, which a GPU needs
  int width = 128;
  int context = 64;      ///< longest sequence, in tokens
  int vocabulary = 256;  ///< tokens are below it; 256: one token per byte

  bool operator==(const GptConfig&) const = default;
};

/// GPT-2's layout (Radford et al. 2019): learned positions, LayerNorm before attention and MLP, GELU with
/// tanh, output layer tied to the token embedding, deviation 0.02 and 0.02 / sqrt(2 * layers) for projections
/// back into the residual stream. Linear weights are [out, in].
TensorTable gpt_tensors(const GptConfig& config);
/// Its tensors before those of the layers, and those of each layer.
inline constexpr std::size_t tensors_before_layers = 2, tensors_per_layer = 12;

/// Floating-point operations of one training step per token: 6 per matrix parameter and 12 * layers * width *
/// context for attention (Kaplan et al., arXiv 2001.08361, section 2.1, with the attention term of PaLM,
/// arXiv 2204.02311, appendix B).
double gpt_flops_per_token(const GptConfig& config);

/// The sizes of a preset, or nothing: "small" (the default), and GPT-2's "gpt2-124M", "gpt2-350M",
/// "gpt2-774M" and "gpt2-1558M" (Radford et al. 2019, table 2; parameter counts as in llm.c and the released
/// weights).
std::optional<GptConfig> gpt_preset(std::string_view name);

/// The sizes as text for checkpoints, "gpt layers=4 heads=2 width=128 context=64 vocabulary=256": equal texts
/// mean equal tensors.
std::string gpt_text(const GptConfig& config);
/// The sizes in a text of gpt_text(), or nothing.
std::optional<GptConfig> parse_gpt_text(const std::string& text);

/// Why a model cannot have these sizes, in the form "its width of 10 cannot be divided into 3 heads"; empty:
/// it can.
std::string size_problem(const GptConfig& config);

}  // namespace muster::models
