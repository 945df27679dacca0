// SPDX-License-Identifier: Apache-2.0
#include "weights/gpt_names.hpp"

#include <fmt/format.h>

#include <iterator>

namespace muster::weights {
namespace {

/// In the order of gpt_tensors().
constexpr struct {
  const char* name;
  bool transposed;
} before_layers[] = {{"wte.weight", false}, {"wpe.weight", false}},
  in_layer[] = {{"ln_1.weight", false},      {"ln_1.bias", false},         {"attn.c_attn.weight", true},
                {"attn.c_attn.bias", false}, {"attn.c_proj.weight", true}, {"attn.c_proj.bias", false},
                {"ln_2.weight", false},      {"ln_2.bias", false},         {"mlp.c_fc.weight", true},
                {"mlp.c_fc.bias", false},    {"mlp.c_proj.weight", true},  {"mlp.c_proj.bias", false}},
  after_layers[] = {{"ln_f.weight", false}, {"ln_f.bias", false}};

}  // namespace

std::vector<HuggingfaceName> huggingface_names(const models::GptConfig& config) {
  std::vector<HuggingfaceName> names;
  for (const auto& tensor : before_layers) names.push_back({tensor.name, tensor.transposed});
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const auto& tensor : in_layer)
      names.push_back({fmt::format("h.{}.{}", layer, tensor.name), tensor.transposed});
  }
  for (const auto& tensor : after_layers) names.push_back({tensor.name, tensor.transposed});
  return names;
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
