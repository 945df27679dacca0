// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/tensor_table.hpp"

namespace muster::models {

/// How rotary positions of Llama 3.1 and later are scaled for contexts beyond that of the pretraining:
/// Hugging Face's rope_type "llama3" (rotary_frequency()).
struct RotaryScaling {
  double factor = 8;  ///< divides the frequencies of pairs that turn slowly
  /// Pairs that turn fewer times than `low` in the original context are slow, and those that turn more than
  /// `high` keep their frequency.
  double low_frequency_factor = 1, high_frequency_factor = 4;
  int original_context = 8192;

  bool operator==(const RotaryScaling&) const = default;
};

/// What makes a model the Llama kind (Touvron et al., arXiv 2302.13971): rotary positions, RMSNorm, a gated
/// MLP, grouped queries, and no biases.
struct LlamaConfig {
  int kv_heads = 2;             ///< heads of keys and values; divides the heads
  int mlp_width = 384;          ///< of the gate and of what it gates
  double rotary_theta = 10000;  ///< the angle of pair i turns by theta^(-2i / head width) with each position
  double norm_epsilon = 1e-5;
  bool tied_output = false;  ///< the output layer is the token embedding
  std::optional<RotaryScaling> rotary_scaling = std::nullopt;

  bool operator==(const LlamaConfig&) const = default;
};

/// A model of GPT-2's kind, or of the Llama kind.
struct GptConfig {
  int layers = 4;
  int heads = 2;  ///< 64 wide, as in GPT-2
  int width = 128;
  int context = 64;      ///< longest sequence, in tokens
  int vocabulary = 256;  ///< tokens are below it; 256: one token per byte
  std::optional<LlamaConfig> llama = std::nullopt;

  int head_width() const { return width / heads; }
  int kv_heads() const { return llama ? llama->kv_heads : heads; }
  int kv_width() const { return kv_heads() * head_width(); }
  int qkv_width() const { return width + 2 * kv_width(); }
  int mlp_width() const { return llama ? llama->mlp_width : 4 * width; }
  /// Of the MLP's first product: a gated MLP has two parts.
  int expanded_width() const { return llama ? 2 * llama->mlp_width : 4 * width; }
  bool has_tied_output() const { return !llama || llama->tied_output; }
  bool operator==(const GptConfig&) const = default;
};

/// GPT-2's layout (Radford et al. 2019): learned positions, LayerNorm before attention and MLP, GELU with
/// tanh, output layer tied to the token embedding; or the Llama kind's. Deviation 0.02, and 0.02 / sqrt(2 *
/// layers) for projections back into the residual stream. Linear weights are [out, in].
TensorTable gpt_tensors(const GptConfig& config);

/// The layers of a part of a GPT, [first, last). The part with the first layer has the embeddings, too, and
/// that with the last layer the final norm and the output layer.
struct LayerRange {
  int first = 0, last = 0;

  int count() const { return last - first; }
  bool has_embeddings() const { return first == 0; }
  bool has_output(const GptConfig& config) const { return last == config.layers; }
  /// The output layer is the token embedding of another part: the part keeps a copy.
  bool has_copied_table(const GptConfig& config) const {
    return has_output(config) && !has_embeddings() && config.has_tied_output();
  }
  bool operator==(const LayerRange&) const = default;
};

/// The tensors of a part: those of the whole table that it has, in their order and with the same gaps. A
/// copied token embedding follows, which is not trained.
TensorTable gpt_tensors(const GptConfig& config, const LayerRange& layers);
/// The number in the whole table of the first tensor of a part.
std::size_t first_tensor(const GptConfig& config, const LayerRange& layers);

/// A layer's gains and weights, in their order in gpt_tensors().
enum class LayerTensor : std::size_t { attention_gain, qkv, output, mlp_gain, expand, project };

/// The places of tensors in gpt_tensors() of a part. GPT-2's gains and weights are each followed by a bias.
/// Layers count from the part's first.
class TensorIndex {
 public:
  explicit TensorIndex(const GptConfig& config) : TensorIndex(config, {0, config.layers}) {}
  TensorIndex(const GptConfig& config, const LayerRange& layers);
  bool has_biases() const { return per_pair_ == 2; }
  /// Of a gain or weight; its bias has the next place.
  std::size_t of(std::size_t layer, LayerTensor tensor) const {
    return before_layers_ + (layer * 6 + static_cast<std::size_t>(tensor)) * per_pair_;
  }
  std::size_t token_embedding() const { return 0; }
  /// GPT-2's only.
  std::size_t position_embedding() const { return 1; }
  std::size_t final_gain() const { return before_layers_ + layers_ * 6 * per_pair_; }
  /// Of the output layer, maybe that of the token embedding.
  std::size_t output_layer() const { return has_output_layer_ ? final_gain() + per_pair_ : 0; }
  bool has_embeddings() const { return has_embeddings_; }
  bool has_output() const { return has_output_; }

 private:
  std::size_t layers_, per_pair_, before_layers_;
  bool has_embeddings_, has_output_;
  bool has_output_layer_;  ///< of its own, or a copy
};

/// Floating-point operations of one training step per token: 6 per matrix parameter, the token embedding's
/// only where the output layer is tied to it, and 12 * layers * width * context for attention (Kaplan et al.,
/// arXiv 2001.08361, section 2.1, with the attention term of PaLM, arXiv 2204.02311, appendix B).
double gpt_flops_per_token(const GptConfig& config);
/// Those of a part, which add up to the whole.
double gpt_flops_per_token(const GptConfig& config, const LayerRange& layers);

/// The sizes of a preset, or nothing: "small" (the default), "llama", and GPT-2's "gpt2-124M", "gpt2-350M",
/// "gpt2-774M" and "gpt2-1558M" (Radford et al. 2019, table 2; parameter counts as in llm.c and the released
/// weights).
std::optional<GptConfig> gpt_preset(std::string_view name);
/// Llama's width of the MLP where none is given: 8/3 of the width, rounded up to a multiple of 64.
int default_mlp_width(int width);

/// The sizes as text for checkpoints, "gpt layers=4 heads=2 width=128 context=64 vocabulary=256" or "llama
/// layers=…": equal texts mean equal tensors and the same computation.
std::string gpt_text(const GptConfig& config);
/// The sizes in a text of gpt_text(), or nothing.
std::optional<GptConfig> parse_gpt_text(const std::string& text);

/// Why a model cannot have these sizes, in the form "its width of 10 cannot be divided into 3 heads"; empty:
/// it can.
std::string size_problem(const GptConfig& config);

}  // namespace muster::models
