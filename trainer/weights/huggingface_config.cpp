// SPDX-License-Identifier: Apache-2.0
#include "weights/huggingface_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "files/parse_json.hpp"
#include "text/printable.hpp"

namespace muster::weights {
namespace {

using Json = nlohmann::ordered_json;

constexpr double layer_norm_epsilon = 1e-5;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

/// A value of the file, shortened, for a message.
std::string quote(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60));
}

int get_size(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) refuse(fmt::format("it has no '{}'", key));
  if (!found->is_number_integer() || *found < 1 || *found > 1'000'000)
    refuse(fmt::format("its {} of {} is no size of a model", key, quote(*found)));
  return found->get<int>();
}

/// Refuses a setting that is present with another value than `expected`.
void require_value(const Json& json, const char* key, const Json& expected) {
  const auto found = json.find(key);
  if (found != json.end() && *found != expected)
    refuse(fmt::format("its {} is {}, and Muster computes only {}", key, quote(*found), expected.dump()));
}

void require_absent(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null())
    refuse(fmt::format("it has a {}, which Muster does not compute", key));
}

void check_gpt2(const Json& json, const models::GptConfig& config) {
  if (const auto inner = json.find("n_inner"); inner != json.end() && !inner->is_null())
    require_value(json, "n_inner", 4 * config.width);
  if (const auto function = json.value("activation_function", Json("gelu_new"));
      function != "gelu_new" && function != "gelu_pytorch_tanh") {
    refuse(fmt::format("its activation_function is {}, and Muster computes only gelu_new", quote(function)));
  }
  const auto epsilon = json.value("layer_norm_epsilon", Json(layer_norm_epsilon));
  if (!epsilon.is_number() || std::abs(epsilon.get<double>() - layer_norm_epsilon) > 1e-12)
    refuse(fmt::format("its layer_norm_epsilon is {}, and Muster computes only 1e-05", quote(epsilon)));
  require_value(json, "scale_attn_weights", true);
  require_value(json, "scale_attn_by_inverse_layer_idx", false);
  require_value(json, "add_cross_attention", false);
  require_value(json, "tie_word_embeddings", true);
  require_absent(json, "quantization_config");
}

models::GptConfig parse_gpt2(const Json& json) {
  const models::GptConfig config{get_size(json, "n_layer"), get_size(json, "n_head"),
                                 get_size(json, "n_embd"), get_size(json, "n_positions"),
                                 get_size(json, "vocab_size")};
  if (const std::string problem = models::size_problem(config); !problem.empty()) refuse(problem);
  check_gpt2(json, config);
  return config;
}

/// A member, or nothing where it is missing or null.
std::optional<Json> find_value(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return *found;
}

double get_number(const Json& json, const char* key, double unless_given) {
  const auto value = find_value(json, key);
  if (value && !value->is_number()) refuse(fmt::format("its {} of {} is no number", key, quote(*value)));
  return value ? value->get<double>() : unless_given;
}

double need_number(const Json& json, const char* key) {
  if (!find_value(json, key)) refuse(fmt::format("its rotary positions have no {}", key));
  return get_number(json, key, 0);
}

std::optional<models::RotaryScaling> get_rotary_scaling(const Json& rotary) {
  const Json type = rotary.value("rope_type", rotary.value("type", Json("default")));
  if (type == "default") return std::nullopt;
  if (type != "llama3") {
    refuse(fmt::format(
        "its rotary positions are of the type {}, and Muster computes only \"default\" and \"llama3\"",
        quote(type)));
  }
  return models::RotaryScaling{need_number(rotary, "factor"), need_number(rotary, "low_freq_factor"),
                               need_number(rotary, "high_freq_factor"),
                               get_size(rotary, "original_max_position_embeddings")};
}

/// Theta and scaling of rotary positions: transformers 5 writes them as one object, and version 4 theta
/// beside a scaling.
void read_rotary(const Json& json, models::LlamaConfig& llama) {
  constexpr double unless_given = 10000;
  llama.rotary_theta = get_number(json, "rope_theta", unless_given);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rotary = find_value(json, key);
    if (!rotary) continue;
    if (!rotary->is_object()) refuse(fmt::format("its {} is no object", key));
    require_value(*rotary, "partial_rotary_factor", 1.0);
    llama.rotary_theta = get_number(*rotary, "rope_theta", llama.rotary_theta);
    const auto scaling = get_rotary_scaling(*rotary);
    if (llama.rotary_scaling && llama.rotary_scaling != scaling)
      refuse("its rope_scaling and its rope_parameters differ");
    llama.rotary_scaling = scaling;
  }
}

void check_llama(const Json& json, const models::GptConfig& config) {
  require_value(json, "hidden_act", "silu");
  require_value(json, "attention_bias", false);
  require_value(json, "mlp_bias", false);
  if (find_value(json, "head_dim")) require_value(json, "head_dim", config.head_width());
  require_absent(json, "quantization_config");
}

models::GptConfig parse_llama(const Json& json) {
  constexpr double unless_given = 1e-6;  // LlamaConfig's epsilon
  models::GptConfig config{get_size(json, "num_hidden_layers"), get_size(json, "num_attention_heads"),
                           get_size(json, "hidden_size"), get_size(json, "max_position_embeddings"),
                           get_size(json, "vocab_size")};
  const bool grouped = find_value(json, "num_key_value_heads").has_value();
  const Json tied = json.value("tie_word_embeddings", Json(false));
  if (!tied.is_boolean()) refuse(fmt::format("its tie_word_embeddings is {}", quote(tied)));
  config.llama = models::LlamaConfig{grouped ? get_size(json, "num_key_value_heads") : config.heads,
                                     get_size(json, "intermediate_size"), 0,
                                     get_number(json, "rms_norm_eps", unless_given), tied.get<bool>()};
  read_rotary(json, *config.llama);
  if (const std::string problem = models::size_problem(config); !problem.empty()) refuse(problem);
  check_llama(json, config);
  return config;
}

const char* torch_name(ElementType type) { return type == ElementType::bfloat16 ? "bfloat16" : "float32"; }

Json rotary_json(const std::optional<models::RotaryScaling>& scaling) {
  if (!scaling) return {{"rope_type", "default"}};
  return {{"rope_type", "llama3"},
          {"factor", scaling->factor},
          {"low_freq_factor", scaling->low_frequency_factor},
          {"high_freq_factor", scaling->high_frequency_factor},
          {"original_max_position_embeddings", scaling->original_context}};
}

Json llama_json(const models::GptConfig& config) {
  const models::LlamaConfig& llama = *config.llama;
  Json rotary = rotary_json(llama.rotary_scaling);
  const Json scaling = llama.rotary_scaling ? rotary : Json();  // for transformers 4
  rotary["rope_theta"] = llama.rotary_theta;
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", llama.kv_heads},
          {"head_dim", config.head_width()},
          {"hidden_size", config.width},
          {"intermediate_size", llama.mlp_width},
          {"max_position_embeddings", config.context},
          {"vocab_size", config.vocabulary},
          {"rms_norm_eps", llama.norm_epsilon},
          {"rope_theta", llama.rotary_theta},
          {"rope_scaling", scaling},
          {"rope_parameters", rotary},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"initializer_range", 0.02},
          {"attention_dropout", 0.0},
          {"tie_word_embeddings", llama.tied_output}};
}

Json gpt2_json(const models::GptConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_embd", config.width},
          {"n_positions", config.context},
          {"vocab_size", config.vocabulary},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", layer_norm_epsilon},
          {"initializer_range", 0.02},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"tie_word_embeddings", true}};
}

}  // namespace

models::GptConfig parse_huggingface_config(std::string_view text) {
  const auto json = parse_json<Json>(text);
  if (!json.is_object()) refuse("it is not a JSON object");
  const auto type = json.value("model_type", Json());
  if (type == "gpt2") return parse_gpt2(json);
  if (type == "llama") return parse_llama(json);
  refuse(fmt::format("its model_type is {}, and Muster reads only \"gpt2\" and \"llama\"", quote(type)));
}

std::string write_huggingface_config(const models::GptConfig& config, ElementType type) {
  Json json = config.llama ? llama_json(config) : gpt2_json(config);
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["torch_dtype"] = torch_name(type);
  return json.dump(2) + '\n';
}

}  // namespace muster::weights
