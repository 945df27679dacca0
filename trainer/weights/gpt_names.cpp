// SPDX-License-Identifier: Apache-2.0
#include "weights/gpt_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::weights {
namespace {

/// GPT-2's, in the order of gpt_tensors().
constexpr struct {
  const char* name;
  bool transposed;
} before_layers[] = {{"wte.weight", false}, {"wpe.weight", false}},
  in_layer[] = {{"ln_1.weight", false},      {"ln_1.bias", false},         {"attn.c_attn.weight", true},
                {"attn.c_attn.bias", false}, {"attn.c_proj.weight", true}, {"attn.c_proj.bias", false},
                {"ln_2.weight", false},      {"ln_2.bias", false},         {"mlp.c_fc.weight", true},
                {"mlp.c_fc.bias", false},    {"mlp.c_proj.weight", true},  {"mlp.c_proj.bias", false}},
  after_layers[] = {{"ln_f.weight", false}, {"ln_f.bias", false}};

HuggingfaceTensor whole(const models::Tensor& tensor, const char* prefix, std::string name, bool transposed) {
  HuggingfaceTensor made{prefix, std::move(name), tensor.shape, tensor.offset, tensor.count, transposed};
  if (transposed) std::reverse(made.shape.begin(), made.shape.end());
  return made;
}

std::vector<HuggingfaceTensor> gpt2_tensors(const models::GptConfig& config) {
  const auto table = models::gpt_tensors(config).tensors;
  std::vector<HuggingfaceTensor> tensors;
  const auto add = [&](std::string name, bool transposed) {
    tensors.push_back(whole(table[tensors.size()], "transformer.", std::move(name), transposed));
  };
  for (const auto& tensor : before_layers) add(tensor.name, tensor.transposed);
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const auto& tensor : in_layer) add(fmt::format("h.{}.{}", layer, tensor.name), tensor.transposed);
  }
  for (const auto& tensor : after_layers) add(tensor.name, tensor.transposed);
  return tensors;
}

/// Llama's, of one layer; Muster has some of them together in one tensor.
struct LayerRows {
  models::LayerTensor tensor;
  const char* name;
  int rows;  ///< 0: a gain
};
std::vector<LayerRows> llama_layer(const models::GptConfig& config) {
  using enum models::LayerTensor;
  const int width = config.width, kv_width = config.kv_width(), mlp = config.mlp_width();
  return {{attention_gain, "input_layernorm", 0}, {qkv, "self_attn.q_proj", width},
          {qkv, "self_attn.k_proj", kv_width},    {qkv, "self_attn.v_proj", kv_width},
          {output, "self_attn.o_proj", width},    {mlp_gain, "post_attention_layernorm", 0},
          {expand, "mlp.gate_proj", mlp},         {expand, "mlp.up_proj", mlp},
          {project, "mlp.down_proj", width}};
}

std::vector<HuggingfaceTensor> llama_tensors(const models::GptConfig& config) {
  const auto table = models::gpt_tensors(config).tensors;
  const models::TensorIndex places(config);
  std::vector<HuggingfaceTensor> tensors{whole(table[0], "model.", "embed_tokens.weight", false)};
  for (int layer = 0; layer < config.layers; ++layer) {
    std::size_t offset = 0;  // of the next rows
    for (const auto& [kind, name, rows] : llama_layer(config)) {
      const models::Tensor& tensor = table[places.of(static_cast<std::size_t>(layer), kind)];
      HuggingfaceTensor part =
          whole(tensor, "model.", fmt::format("layers.{}.{}.weight", layer, name), false);
      if (rows > 0) {
        part.shape[0] = rows;
        part.count = static_cast<std::size_t>(rows * tensor.shape[1]);
      }
      part.offset = std::max(offset, tensor.offset);
      offset = part.offset + part.count;
      tensors.push_back(std::move(part));
    }
  }
  tensors.push_back(whole(table[places.final_gain()], "model.", "norm.weight", false));
  if (!config.llama->tied_output)
    tensors.push_back(whole(table[places.output_layer()], "", huggingface_output_layer, false));
  return tensors;
}

}  // namespace

std::vector<HuggingfaceTensor> huggingface_tensors(const models::GptConfig& config) {
  return config.llama ? llama_tensors(config) : gpt2_tensors(config);
}

bool is_huggingface_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

std::vector<std::size_t> llmc_order(const models::GptConfig& config) {
  constexpr std::size_t before = std::size(before_layers), kinds = std::size(in_layer);
  const auto layers = static_cast<std::size_t>(config.layers);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < before; ++i) order.push_back(i);
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    for (std::size_t layer = 0; layer < layers; ++layer) order.push_back(before + layer * kinds + kind);
  }
  for (std::size_t i = 0; i < std::size(after_layers); ++i) order.push_back(before + layers * kinds + i);
  return order;
}

}  // namespace muster::weights
