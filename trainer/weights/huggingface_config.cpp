// SPDX-License-Identifier: Apache-2.0
#include "weights/huggingface_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

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

}  // namespace

models::GptConfig parse_huggingface_config(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  // nlohmann-json treats a NUL as the end of its input.
  if (!json.is_object() || text.find('\0') != text.npos) refuse("it is not a JSON object");
  const auto type = json.value("model_type", Json());
  if (type != "gpt2")
    refuse(fmt::format("its model_type is {}, and Muster reads only \"gpt2\"", quote(type)));
  const models::GptConfig config{get_size(json, "n_layer"), get_size(json, "n_head"),
                                 get_size(json, "n_embd"), get_size(json, "n_positions"),
                                 get_size(json, "vocab_size")};
  if (const std::string problem = models::size_problem(config); !problem.empty()) refuse(problem);
  check_gpt2(json, config);
  return config;
}

std::string write_huggingface_config(const models::GptConfig& config) {
  const Json json{{"architectures", {"GPT2LMHeadModel"}},
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
                  {"tie_word_embeddings", true},
                  {"bos_token_id", nullptr},
                  {"eos_token_id", nullptr},
                  {"torch_dtype", "float32"}};
  return json.dump(2) + '\n';
}

}  // namespace muster::weights
