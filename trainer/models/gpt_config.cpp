// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string_view>

#include "compute/token.hpp"

namespace muster::models {
namespace {

constexpr int most_layers = 1024, most_heads = 1024, most_width = 65536, most_context = 1 << 20,
              most_mlp_width = 262144;

constexpr double deviation = 0.02;
double residual_deviation(const GptConfig& config) { return deviation / std::sqrt(2.0 * config.layers); }

/// Adds a row for each token. Zero rows after the table pad the number of rows to a multiple that tensor
/// cores handle well.
void add_vocabulary(TableBuilder& build, const char* name, const GptConfig& config) {
  build.add(name, {config.vocabulary, config.width}, true, deviation);
  build.pad_last_to(static_cast<std::size_t>((config.vocabulary + 63) / 64 * 64) *
                    static_cast<std::size_t>(config.width));
}

TensorTable gpt2_tensors(const GptConfig& config) {
  const std::int64_t width = config.width;
  TableBuilder build;
  add_vocabulary(build, "token_embedding", config);
  build.add("position_embedding", {config.context, width}, true, deviation);
  for (int i = 0; i < config.layers; ++i) {
    const std::string at = "layers." + std::to_string(i) + ".";
    build.add(at + "attention_norm.gain", {width}, false, 0, 1);
    build.add(at + "attention_norm.bias", {width}, false, 0);
    build.add(at + "attention.qkv.weight", {3 * width, width}, true, deviation);
    build.add(at + "attention.qkv.bias", {3 * width}, false, 0);
    build.add(at + "attention.output.weight", {width, width}, true, residual_deviation(config));
    build.add(at + "attention.output.bias", {width}, false, 0);
    build.add(at + "mlp_norm.gain", {width}, false, 0, 1);
    build.add(at + "mlp_norm.bias", {width}, false, 0);
    build.add(at + "mlp.expand.weight", {4 * width, width}, true, deviation);
    build.add(at + "mlp.expand.bias", {4 * width}, false, 0);
    build.add(at + "mlp.project.weight", {width, 4 * width}, true, residual_deviation(config));
    build.add(at + "mlp.project.bias", {width}, false, 0);
  }
  build.add("final_norm.gain", {width}, false, 0, 1);
  build.add("final_norm.bias", {width}, false, 0);
  return build.take();
}

TensorTable llama_tensors(const GptConfig& config) {
  const std::int64_t width = config.width, mlp = config.mlp_width();
  TableBuilder build;
  add_vocabulary(build, "token_embedding", config);
  for (int i = 0; i < config.layers; ++i) {
    const std::string at = "layers." + std::to_string(i) + ".";
    build.add(at + "attention_norm.gain", {width}, false, 0, 1);
    build.add(at + "attention.qkv.weight", {config.qkv_width(), width}, true, deviation);
    build.add(at + "attention.output.weight", {width, width}, true, residual_deviation(config));
    build.add(at + "mlp_norm.gain", {width}, false, 0, 1);
    build.add(at + "mlp.gate_up.weight", {2 * mlp, width}, true, deviation);
    build.add(at + "mlp.project.weight", {width, mlp}, true, residual_deviation(config));
  }
  build.add("final_norm.gain", {width}, false, 0, 1);
  if (!config.llama->tied_output) add_vocabulary(build, "output.weight", config);
  return build.take();
}

std::string scaling_text(const std::optional<RotaryScaling>& scaling) {
  if (!scaling) return "";
  return fmt::format(" scaling={},{},{},{}", scaling->factor, scaling->low_frequency_factor,
                     scaling->high_frequency_factor, scaling->original_context);
}

std::string llama_text(const GptConfig& config) {
  const LlamaConfig& l = *config.llama;
  return fmt::format(
      "llama layers={} heads={} kv_heads={} width={} mlp_width={} context={} vocabulary={} theta={} "
      "epsilon={} output={}{}",
      config.layers, config.heads, l.kv_heads, config.width, l.mlp_width, config.context, config.vocabulary,
      l.rotary_theta, l.norm_epsilon, l.tied_output ? "tied" : "own", scaling_text(l.rotary_scaling));
}

std::optional<GptConfig> parse_llama_text(const std::string& text) {
  GptConfig config;
  LlamaConfig l;
  RotaryScaling scaling;
  char output[5] = "";
  const int found =
      std::sscanf(text.c_str(),
                  "llama layers=%6d heads=%6d kv_heads=%6d width=%6d mlp_width=%6d "
                  "context=%7d vocabulary=%7d theta=%30lf epsilon=%30lf output=%4s "
                  "scaling=%30lf,%30lf,%30lf,%9d",
                  &config.layers, &config.heads, &l.kv_heads, &config.width, &l.mlp_width, &config.context,
                  &config.vocabulary, &l.rotary_theta, &l.norm_epsilon, output, &scaling.factor,
                  &scaling.low_frequency_factor, &scaling.high_frequency_factor, &scaling.original_context);
  if (found != 10 && found != 14) return std::nullopt;
  if (found == 14) l.rotary_scaling = scaling;
  l.tied_output = std::string_view(output) == "tied";
  config.llama = l;
  return config;
}

std::string scaling_problem(const RotaryScaling& scaling) {
  if (!(scaling.factor >= 1 && scaling.factor <= 1e6))
    return fmt::format("its rotary positions' factor of {} must be from 1 to 1e6", scaling.factor);
  if (!(scaling.low_frequency_factor > 0 && scaling.low_frequency_factor < scaling.high_frequency_factor &&
        scaling.high_frequency_factor <= 1e6)) {
    return fmt::format(
        "its rotary positions' factors of low and high frequencies, {} and {}, must rise, from "
        "above 0 to at most 1e6",
        scaling.low_frequency_factor, scaling.high_frequency_factor);
  }
  if (scaling.original_context < 1 || scaling.original_context > most_context)
    return fmt::format("its original context of {} must be from 1 to {}", scaling.original_context,
                       most_context);
  return "";
}

std::string llama_problem(const GptConfig& config) {
  const LlamaConfig& l = *config.llama;
  if (l.kv_heads < 1 || config.heads % l.kv_heads != 0)
    return fmt::format("its {} heads cannot share {} heads of keys and values", config.heads, l.kv_heads);
  if (config.head_width() % 2 != 0)
    return fmt::format("its heads are {} wide, and rotary positions need an even width", config.head_width());
  if (l.mlp_width < 1 || l.mlp_width > most_mlp_width)
    return fmt::format("its MLP width of {} must be from 1 to {}", l.mlp_width, most_mlp_width);
  if (!(l.rotary_theta >= 1 && l.rotary_theta <= 1e12))
    return fmt::format("its theta of {} must be from 1 to 1e12", l.rotary_theta);
  if (!(l.norm_epsilon > 0 && l.norm_epsilon < 1))
    return fmt::format("its epsilon of {} must be above 0 and below 1", l.norm_epsilon);
  if (l.rotary_scaling) return scaling_problem(*l.rotary_scaling);
  return "";
}

}  // namespace

TensorTable gpt_tensors(const GptConfig& config) {
  return config.llama ? llama_tensors(config) : gpt2_tensors(config);
}

std::size_t first_tensor(const GptConfig& config, const LayerRange& layers) {
  return layers.has_embeddings()
             ? 0
             : TensorIndex(config).of(static_cast<std::size_t>(layers.first), LayerTensor::attention_gain);
}

TensorTable gpt_tensors(const GptConfig& config, const LayerRange& layers) {
  TensorTable whole = gpt_tensors(config);
  if (layers.has_embeddings() && layers.has_output(config)) return whole;
  const auto begin = first_tensor(config, layers);
  const auto end =
      layers.has_output(config) ? whole.tensors.size() : first_tensor(config, {layers.last, config.layers});
  TensorTable part;
  part.append(whole, begin, end);
  if (layers.has_copied_table(config)) {
    whole.tensors[0].is_trained = false;
    part.append(whole, 0, 1);
  }
  return part;
}

TensorIndex::TensorIndex(const GptConfig& config, const LayerRange& layers)
    : layers_(static_cast<std::size_t>(layers.count())),
      per_pair_(config.llama ? 1 : 2),
      before_layers_(!layers.has_embeddings() ? 0
                     : config.llama           ? 1
                                              : 2),
      has_embeddings_(layers.has_embeddings()),
      has_output_(layers.has_output(config)),
      has_output_layer_(has_output_ && (!config.has_tied_output() || !has_embeddings_)) {}

double gpt_flops_per_token(const GptConfig& config) {
  return gpt_flops_per_token(config, {0, config.layers});
}

double gpt_flops_per_token(const GptConfig& config, const LayerRange& range) {
  const double width = config.width, layers = range.count();
  const double in_layer = width * (width + config.qkv_width() + config.expanded_width() + config.mlp_width());
  const double matrices = layers * in_layer + (range.has_output(config) ? config.vocabulary * width : 0);
  return 6 * matrices + 12 * layers * width * config.context;
}

std::optional<GptConfig> gpt_preset(std::string_view name) {
  if (name == "small") return GptConfig{};
  if (name == "llama") return GptConfig{4, 2, 128, 64, 256, LlamaConfig{}};
  constexpr int context = 1024, vocabulary = 50257;
  if (name == "gpt2-124M") return GptConfig{12, 12, 768, context, vocabulary};
  if (name == "gpt2-350M") return GptConfig{24, 16, 1024, context, vocabulary};
  if (name == "gpt2-774M") return GptConfig{36, 20, 1280, context, vocabulary};
  if (name == "gpt2-1558M") return GptConfig{48, 25, 1600, context, vocabulary};
  return std::nullopt;
}

int default_mlp_width(int width) { return (8 * width + 191) / 192 * 64; }

std::string gpt_text(const GptConfig& config) {
  if (config.llama) return llama_text(config);
  return fmt::format("gpt layers={} heads={} width={} context={} vocabulary={}", config.layers, config.heads,
                     config.width, config.context, config.vocabulary);
}

std::optional<GptConfig> parse_gpt_text(const std::string& text) {
  GptConfig config;
  if (auto llama = parse_llama_text(text)) {
    if (gpt_text(*llama) != text || !size_problem(*llama).empty()) return std::nullopt;
    return llama;
  }
  const int found =
      std::sscanf(text.c_str(), "gpt layers=%6d heads=%6d width=%6d context=%7d vocabulary=%7d",
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
  return config.llama ? llama_problem(config) : "";
}

}  // namespace muster::models
