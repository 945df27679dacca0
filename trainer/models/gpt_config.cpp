// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "compute/token.hpp"

namespace muster::models {
namespace {

constexpr int most_layers = 1024, most_heads = 1024, most_width = 65536, most_context = 65536;

}  // namespace

TensorTable gpt_tensors(const GptConfig& config) {
  const std::int64_t width = config.width;
  const double deviation = 0.02, residual_deviation = 0.02 / std::sqrt(2.0 * config.layers);
  TableBuilder build;
  build.add("token_embedding", {config.vocabulary, width}, true, deviation);
  // Zero rows after the table pad the number of rows to a multiple that tensor cores handle well.
  build.pad_last_to(static_cast<std::size_t>((config.vocabulary + 63) / 64 * 64 * width));
  build.add("position_embedding", {config.context, width}, true, deviation);
  for (int i = 0; i < config.layers; ++i) {
    const std::string at = "layers." + std::to_string(i) + ".";
    build.add(at + "attention_norm.gain", {width}, false, 0, 1);
    build.add(at + "attention_norm.bias", {width}, false, 0);
    build.add(at + "attention.qkv.weight", {3 * width, width}, true, deviation);
    build.add(at + "attention.qkv.bias", {3 * width}, false, 0);
    build.add(at + "attention.output.weight", {width, width}, true, residual_deviation);
    build.add(at + "attention.output.bias", {width}, false, 0);
    build.add(at + "mlp_norm.gain", {width}, false, 0, 1);
    build.add(at + "mlp_norm.bias", {width}, false, 0);
    build.add(at + "mlp.expand.weight", {4 * width, width}, true, deviation);
    build.add(at + "mlp.expand.bias", {4 * width}, false, 0);
    build.add(at + "mlp.project.weight", {width, 4 * width}, true, residual_deviation);
    build.add(at + "mlp.project.bias", {width}, false, 0);
  }
  build.add("final_norm.gain", {width}, false, 0, 1);
  build.add("final_norm.bias", {width}, false, 0);
  return build.take();
}

double gpt_flops_per_token(const GptConfig& config) {
  const double width = config.width, layers = config.layers;
  const double matrices = layers * 12 * width * width + config.vocabulary * width;
  return 6 * matrices + 12 * layers * width * config.context;
}

std::optional<GptConfig> gpt_preset(std::string_view name) {
  if (name == "small") return GptConfig{};
  constexpr int context = 1024, vocabulary = 50257;
  if (name == "gpt2-124M") return GptConfig{12, 12, 768, context, vocabulary};
  if (name == "gpt2-350M") return GptConfig{24, 16, 1024, context, vocabulary};
  if (name == "gpt2-774M") return GptConfig{36, 20, 1280, context, vocabulary};
  if (name == "gpt2-1558M") return GptConfig{48, 25, 1600, context, vocabulary};
  return std::nullopt;
}

std::string gpt_text(const GptConfig& config) {
  return fmt::format("gpt layers={} heads={} width={} context={} vocabulary={}", config.layers, config.heads,
                     config.width, config.context, config.vocabulary);
}

std::optional<GptConfig> parse_gpt_text(const std::string& text) {
  GptConfig config;
  const int found =
      std::sscanf(text.c_str(), "gpt layers=%6d heads=%6d width=%6d context=%6d vocabulary=%6d",
                  &config.layers, &config.heads, &config.width, &config.context, &config.vocabulary);
  // Written again, so that nothing else in the text is passed over.
  if (found != 5 || gpt_text(config) != text || !size_problem(config).empty()) return std::nullopt;
  return config;
}

std::string size_problem(const GptConfig& config) {
  const struct {
    const char* name;
    int value, most;
  } sizes[] = {{"layers", config.layers, most_layers},
               {"heads", config.heads, most_heads},
               {"width", config.width, most_width},
               {"context", config.context, most_context},
               {"vocabulary", config.vocabulary, compute::most_tokens_in_vocabulary}};
  for (const auto& size : sizes) {
    if (size.value < 1 || size.value > size.most)
      return fmt::format("its {} of {} must be from 1 to {}", size.name, size.value, size.most);
  }
  if (config.width % config.heads != 0)
    return fmt::format("its width of {} cannot be divided into {} heads", config.width, config.heads);
  return "";
}

}  // namespace muster::models
