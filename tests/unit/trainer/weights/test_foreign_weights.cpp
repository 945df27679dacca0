// SPDX-License-Identifier: Apache-2.0
// Weights of other programs that are stored in other types, in several files, or that must be refused.
#include <cstring>

#include "catch.hpp"
#include "checkpoint/safetensors.hpp"
#include "temporary_folder.hpp"
#include "weight_fixture.hpp"
#include "weights/elements.hpp"
#include "weights/huggingface_config.hpp"
#include "weights/llmc_file.hpp"

using namespace muster;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// A copy of the fixture's Hugging Face folder whose files can be changed.
struct FolderCopy {
  TemporaryFolder folder;
  json config = json::parse(content(weight_fixture("huggingface/config.json").string()));
  std::vector<std::vector<char>> bytes;
  std::vector<SafetensorsSource> tensors;

  FolderCopy() {
    const SafetensorsFile file(weight_fixture("huggingface/model.safetensors"));
    for (const auto& tensor : file.tensors()) {
      bytes.emplace_back(tensor.end - tensor.begin);
      file.read(tensor, bytes.back().data());
      tensors.push_back({tensor.name, tensor.type, tensor.shape, bytes.back().data(), bytes.back().size()});
    }
  }
  SafetensorsSource& tensor(const std::string& name) {
    for (auto& found : tensors) {
      if (found.name == name) return found;
    }
    throw std::out_of_range(name);
  }
  void write() const {
    write_file(folder / "config.json", config.dump());
    write_safetensors(folder / "model.safetensors", {{"format", "pt"}}, tensors);
  }
  std::string refusal() const {
    write();
    return weights_refusal(folder.path());
  }
};

std::string config_refusal(const char* key, const json& value) {
  json config = json::parse(content(weight_fixture("huggingface/config.json").string()));
  config[key] = value;
  try {
    weights::parse_huggingface_config(config.dump());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::vector<float> fixture_parameters() {
  return read_parameters(*weights::open_weights(weight_fixture("huggingface")));
}

}  // namespace

TEST_CASE("names without the prefix, masks, and a stored output layer are accepted", "[weights]") {
  FolderCopy copy;
  const auto embedding = copy.tensor("transformer.wte.weight");
  for (auto& tensor : copy.tensors) tensor.name = tensor.name.substr(std::strlen("transformer."));
  const std::vector<char> mask(12 * 12);
  copy.tensors.push_back({"h.0.attn.bias", "U8", {1, 1, 12, 12}, mask.data(), mask.size()});
  copy.tensors.push_back({"lm_head.weight", "F32", embedding.shape, embedding.data, embedding.size});
  CHECK(copy.refusal().empty());
  CHECK(read_parameters(*weights::open_weights(copy.folder.path())) == fixture_parameters());
}

TEST_CASE("weights in several files are found by their index", "[weights]") {
  FolderCopy copy;
  copy.write();
  fs::remove(copy.folder / "model.safetensors");
  const std::vector<SafetensorsSource> first(copy.tensors.begin(), copy.tensors.begin() + 5),
      rest(copy.tensors.begin() + 5, copy.tensors.end());
  write_safetensors(copy.folder / "a.safetensors", {}, first);
  write_safetensors(copy.folder / "b.safetensors", {}, rest);
  json map;
  for (const auto& tensor : first) map[tensor.name] = "a.safetensors";
  for (const auto& tensor : rest) map[tensor.name] = "b.safetensors";
  const auto index = copy.folder / "model.safetensors.index.json";
  write_file(index, json{{"weight_map", map}}.dump());
  CHECK(read_parameters(*weights::open_weights(copy.folder.path())) == fixture_parameters());

  map[first[0].name] = "../a.safetensors";
  write_file(index, json{{"weight_map", map}}.dump());
  CHECK_THAT(weights_refusal(copy.folder.path()), ContainsSubstring("names no file of the folder"));
  map[first[0].name] = "a\x1b[2J";
  write_file(index, json{{"weight_map", map}}.dump());
  CHECK_THAT(weights_refusal(copy.folder.path()), ContainsSubstring("names no file of the folder"));
  fs::remove(index);
  CHECK_THAT(weights_refusal(copy.folder.path()), ContainsSubstring("no model.safetensors and no"));
}

TEST_CASE("half-precision elements are widened exactly", "[weights]") {
  // Zero, one, -2, the largest and smallest numbers, infinity (IEEE 754-2019, table 3.5).
  const std::uint16_t half[] = {0x0000, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x7c00};
  const float half_values[] = {0, 1, -2, 65504, 0x1p-14F, 0x1p-24F, -0x1.ff8p-15F, INFINITY};
  const std::uint16_t brain[] = {0x0000, 0x3f80, 0xc000, 0x7f7f, 0x0080, 0x0001, 0xff80, 0x4049};
  const float brain_values[] = {0, 1, -2, 0x1.fep127F, 0x1p-126F, 0x1p-133F, -INFINITY, 3.140625F};
  float widened[8];
  weights::widen_elements(weights::ElementType::float16, half, 8, widened);
  CHECK(std::memcmp(widened, half_values, sizeof widened) == 0);
  weights::widen_elements(weights::ElementType::bfloat16, brain, 8, widened);
  CHECK(std::memcmp(widened, brain_values, sizeof widened) == 0);
}

TEST_CASE("a folder in bfloat16 is read", "[weights]") {
  FolderCopy copy;
  std::vector<std::vector<std::uint16_t>> narrow;
  for (auto& tensor : copy.tensors) {
    narrow.emplace_back(tensor.size / 4);
    for (std::size_t i = 0; i < narrow.back().size(); ++i)
      std::memcpy(&narrow.back()[i], static_cast<const char*>(tensor.data) + 4 * i + 2, 2);
    tensor.type = "BF16";
    tensor.size /= 2;
  }
  for (std::size_t i = 0; i < narrow.size(); ++i) copy.tensors[i].data = narrow[i].data();
  CHECK(copy.refusal().empty());
  auto expected = fixture_parameters();
  for (float& value : expected) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    bits &= 0xffff0000u;
    std::memcpy(&value, &bits, 4);
  }
  CHECK(read_parameters(*weights::open_weights(copy.folder.path())) == expected);
}

TEST_CASE("foreign folders that Muster would compute otherwise are refused", "[weights]") {
  CHECK(config_refusal("n_inner", 32).empty());
  CHECK(config_refusal("activation_function", "gelu_pytorch_tanh").empty());
  const std::pair<const char*, json> changes[] = {{"model_type", "gpt_neo"},
                                                  {"n_inner", 16},
                                                  {"activation_function", "relu"},
                                                  {"layer_norm_epsilon", 1e-6},
                                                  {"layer_norm_epsilon", "1e-5"},
                                                  {"scale_attn_weights", false},
                                                  {"scale_attn_by_inverse_layer_idx", true},
                                                  {"add_cross_attention", true},
                                                  {"tie_word_embeddings", false},
                                                  {"quantization_config", json::object()},
                                                  {"n_head", 3},
                                                  {"n_layer", 0},
                                                  {"n_embd", -8},
                                                  {"n_positions", 1.5},
                                                  {"vocab_size", 1048577},
                                                  {"vocab_size", nullptr}};
  for (const auto& [key, value] : changes) {
    CAPTURE(key, value);
    CHECK_THAT(config_refusal(key, value), !ContainsSubstring("\n"));
    CHECK_FALSE(config_refusal(key, value).empty());
  }
  for (const char* text : {"", "[]", "{", "{}", "null", "{\"model_type\":\"gpt2\"}"})
    CHECK_THROWS_AS(weights::parse_huggingface_config(text), std::runtime_error);
  CHECK_THROWS_AS(weights::parse_huggingface_config(std::string("{}\0", 3)), std::runtime_error);
  // Without a limit, copies of the value would need more stack than there is.
  const std::string deep = R"({"model_type":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  CHECK_THROWS_WITH(weights::parse_huggingface_config(deep), ContainsSubstring("more than 64 deep"));
}

TEST_CASE("foreign Llamas that Muster would compute otherwise are refused", "[weights]") {
  const models::GptConfig config{2, 4, 32, 12, 19, models::LlamaConfig{2, 40, 500, 1e-6, false}};
  const json written = json::parse(weights::write_huggingface_config(config));
  const auto parse = [&](const char* key, const json& value) {
    json changed = written;
    changed[key] = value;
    return weights::parse_huggingface_config(changed.dump());
  };
  CHECK(parse("head_dim", nullptr) == config);
  CHECK(parse("num_key_value_heads", nullptr).kv_heads() == 4);
  CHECK(parse("rope_parameters", nullptr) == config);  // as transformers 4 writes it
  CHECK(parse("rope_scaling", {{"rope_type", "default"}}) == config);
  CHECK(parse("rms_norm_eps", nullptr) == config);  // LlamaConfig's default
  CHECK(parse("vocab_size", 128256).vocabulary == 128256);
  // As transformers 4 writes it, with theta beside it, and as version 5 does.
  json scaling{{"rope_type", "llama3"},
               {"factor", 32.0},
               {"low_freq_factor", 1.0},
               {"high_freq_factor", 4},
               {"original_max_position_embeddings", 8192}};
  models::GptConfig scaled = config;
  scaled.llama->rotary_scaling = models::RotaryScaling{32, 1, 4, 8192};
  CHECK_THROWS_AS(parse("rope_scaling", scaling), std::runtime_error);  // its rope_parameters are "default"
  json old = written;
  old.erase("rope_parameters");
  old["rope_scaling"] = scaling;
  CHECK(weights::parse_huggingface_config(old.dump()) == scaled);
  scaling["rope_theta"] = 5e5;
  scaled.llama->rotary_theta = 5e5;
  CHECK(parse("rope_parameters", scaling) == scaled);
  CHECK(weights::parse_huggingface_config(weights::write_huggingface_config(scaled)) == scaled);
  CHECK(parse("tie_word_embeddings", true).llama->tied_output);
  const std::pair<const char*, json> changes[] = {{"hidden_act", "gelu"},
                                                  {"attention_bias", true},
                                                  {"mlp_bias", true},
                                                  {"head_dim", 16},
                                                  {"num_key_value_heads", 3},
                                                  {"num_key_value_heads", "2"},
                                                  {"hidden_size", 36},
                                                  {"intermediate_size", 0},
                                                  {"rms_norm_eps", 0},
                                                  {"rms_norm_eps", "1e-6"},
                                                  {"rope_parameters", {{"rope_type", "llama3"}}},
                                                  {"rope_parameters", {{"rope_theta", -1}}},
                                                  {"rope_parameters", {{"partial_rotary_factor", 0.5}}},
                                                  {"rope_parameters", 7},
                                                  {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
                                                  {"tie_word_embeddings", "yes"},
                                                  {"quantization_config", json::object()},
                                                  {"vocab_size", 1048577}};
  for (const auto& [key, value] : changes) {
    CAPTURE(key, value);
    CHECK_THROWS_AS(parse(key, value), std::runtime_error);
  }
}

TEST_CASE("foreign folders with other tensors are refused", "[weights]") {
  FolderCopy copy;
  SECTION("missing") {
    copy.tensor("transformer.h.1.ln_2.bias").name = "transformer.h.1.ln_3.bias";
    CHECK_THAT(copy.refusal(), ContainsSubstring("tensor h.1.ln_2.bias is missing"));
  }
  SECTION("unknown") {
    const float one = 1;
    copy.tensors.push_back({"transformer.h.0.attn.rotary", "F32", {1}, &one, 4});
    CHECK_THAT(copy.refusal(), ContainsSubstring("transformer.h.0.attn.rotary is none of a GPT-2"));
  }
  SECTION("not transposed") {
    auto& tensor = copy.tensor("transformer.h.0.attn.c_attn.weight");
    std::swap(tensor.shape[0], tensor.shape[1]);
    CHECK_THAT(copy.refusal(), ContainsSubstring("another shape than config.json says"));
  }
  SECTION("of integers") {
    copy.tensor("transformer.ln_f.bias").type = "I32";
    CHECK_THAT(copy.refusal(), ContainsSubstring("is I32, and not F32, F16 or BF16"));
  }
  SECTION("twice") {
    auto again = copy.tensor("transformer.ln_f.bias");
    again.name = "ln_f.bias";
    copy.tensors.push_back(again);
    CHECK_THAT(copy.refusal(), ContainsSubstring("it has two tensors"));
  }
  SECTION("an output layer of its own") {
    const auto embedding = copy.tensor("transformer.wte.weight");
    std::vector<char> other(static_cast<const char*>(embedding.data),
                            static_cast<const char*>(embedding.data) + embedding.size);
    other[0] ^= 1;
    copy.tensors.push_back({"lm_head.weight", "F32", embedding.shape, other.data(), other.size()});
    CHECK_THAT(copy.refusal(), ContainsSubstring("differs from the embedding"));
  }
}

TEST_CASE("llm.c's versions are told apart by the file's size", "[weights]") {
  // Vocabulary 19 padded to 128, one layer, width 8, context 12.
  const models::GptConfig config{1, 2, 8, 12, 19};
  const std::uint64_t plain = models::gpt_tensors(config).parameter_count, wide = plain + 109 * 8;
  std::vector<std::int32_t> header(256);
  const auto parse = [&](std::int32_t version, std::int32_t padded, std::uint64_t bytes) {
    const std::int32_t numbers[] = {20240326, version, 12, 19, 1, 2, 8, padded};
    std::copy(std::begin(numbers), std::end(numbers), header.begin());
    return weights::parse_llmc_header(header, 1024 + bytes);
  };
  using weights::ElementType;
  CHECK(parse(1, 0, 4 * plain).type == ElementType::float32);
  CHECK(parse(2, 0, 4 * plain).padded_vocabulary == 19);
  CHECK(parse(3, 128, 4 * wide).type == ElementType::float32);
  CHECK(parse(3, 128, 4 * wide).padded_vocabulary == 128);
  CHECK(parse(3, 0, 2 * plain).type == ElementType::bfloat16);
  CHECK(parse(5, 128, 2 * wide).type == ElementType::bfloat16);
  CHECK(parse(5, 128, 2 * wide).config == config);
  CHECK_THROWS_AS(parse(1, 0, 4 * plain + 1), std::runtime_error);
  CHECK_THROWS_AS(parse(3, 128, 4 * plain), std::runtime_error);
  CHECK_THROWS_AS(parse(3, 18, 4 * (plain - 8)), std::runtime_error);
  CHECK_THROWS_AS(parse(4, 128, 4 * wide), std::runtime_error);
  CHECK_THROWS_AS(parse(1, INT32_MAX, 4 * plain - 4), std::runtime_error);
}

TEST_CASE("damaged and other .bin files are refused", "[weights]") {
  const TemporaryFolder folder;
  const std::string good = content(weight_fixture("llmc.bin").string());
  const auto refusal = [&](const std::string& bytes) {
    write_file(folder / "model.bin", bytes);
    return weights_refusal(folder / "model.bin");
  };
  CHECK(refusal(good).empty());
  CHECK_THAT(refusal(good.substr(0, 500)), ContainsSubstring("shorter than a header"));
  CHECK_THAT(refusal(good.substr(0, good.size() - 1)), ContainsSubstring("do not fit the sizes"));
  std::string shard = good;
  const std::int32_t magic = 20240520;
  std::memcpy(shard.data(), &magic, 4);
  CHECK_THAT(refusal(shard), ContainsSubstring("its first number is 20240520, and not 20240326"));
  CHECK_THAT(weights_refusal(folder / "none.bin"), ContainsSubstring("cannot open"));
  CHECK_THAT(weights_refusal(folder.path()), ContainsSubstring("holds no weights"));
}
