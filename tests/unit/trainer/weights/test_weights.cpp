// SPDX-License-Identifier: Apache-2.0
// Weights in other programs' formats: against files that transformers wrote, and back.
#include <cmath>
#include <cstring>

#include "catch.hpp"
#include "checkpoint/checkpoint.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "models/gpt.hpp"
#include "temporary_folder.hpp"
#include "weight_fixture.hpp"
#include "weights/huggingface_folder.hpp"
#include "weights/llmc_file.hpp"
#include "weights/safetensors_weights.hpp"

using namespace muster;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr models::GptConfig fixture_config{2, 2, 8, 12, 19}, odd_config{3, 3, 15, 7, 130},
    odd_llama{3, 6, 36, 7, 130, models::LlamaConfig{2, 50, 567.8, 1e-6, false}},
    tied_llama{1, 3, 12, 7, 130, models::LlamaConfig{3, 20, 1e4, 1e-5, true}},
    wide_llama{1,     1,
               4,     131072,
               70001, models::LlamaConfig{1, 8, 5e5, 1e-5, false, models::RotaryScaling{32, 1, 4, 8192}}};

/// The loss of transformers' logits over the fixture's tokens.
double expected_loss(const nlohmann::json& expected) {
  double sum = 0;
  const auto tokens = expected.at("tokens").get<std::vector<std::size_t>>();
  for (std::size_t row = 0; row + 1 < tokens.size(); ++row) {
    const auto logits = expected.at("logits").at(row).get<std::vector<double>>();
    double total = 0;
    for (const double logit : logits) total += std::exp(logit);
    sum += std::log(total) - logits[tokens[row + 1]];
  }
  return sum;
}

double loss_of(const weights::WeightSource& source, const std::vector<compute::Token>& tokens) {
  compute::cpu::CpuCompute<float> compute({1, true, nullptr});
  models::Gpt<float> model(source.config(), 1, compute);
  source.read(model.tensors().parameters());
  return model.loss(tokens.data(), tokens.data() + 1, 1, static_cast<int>(tokens.size()) - 1);
}

}  // namespace

TEST_CASE("weights that transformers wrote give transformers' loss", "[weights]") {
  const auto expected = expected_of_transformers();
  const auto tokens = expected.at("tokens").get<std::vector<compute::Token>>();
  for (const char* name : {"huggingface", "llmc.bin"}) {
    CAPTURE(name);
    const auto source = weights::open_weights(weight_fixture(name));
    CHECK(source->config() == fixture_config);
    CHECK(source->tokenizer().empty());
    CHECK(loss_of(*source, tokens) == Approx(expected_loss(expected)).epsilon(1e-5));
  }
  CHECK(read_parameters(*weights::open_weights(weight_fixture("huggingface"))) ==
        read_parameters(*weights::open_weights(weight_fixture("llmc.bin"))));
}

TEST_CASE("text is refused for a vocabulary that is not one of bytes", "[weights]") {
  const TemporaryFolder folder;
  const auto refusal = [&](const char* tokenizer, int vocabulary) -> std::string {
    const models::GptConfig config{1, 1, 4, 6, vocabulary};
    weights::write_llmc_file(folder / "model.bin", config, random_parameters(config));
    const auto source = weights::open_weights(folder / "model.bin");
    try {
      weights::check_tokenizer({"book.txt", tokenizer}, *source, "model.bin");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refusal(byte_tokenizer, 256) == "accepted");
  CHECK(
      refusal(byte_tokenizer, 257) ==
      "--data book.txt is text, whose tokens are bytes, and model.bin does not say how text becomes its 257 "
      "tokens: pass shards that muster-train tokenize has written with its tokenizer.json");
  CHECK(refusal("", 257) == "accepted");                // shards that do not say
  CHECK(refusal("{\"model\": 1}", 257) == "accepted");  // those of a tokenizer
}

TEST_CASE("an exported folder holds the bytes that transformers wrote", "[weights]") {
  const TemporaryFolder folder;
  const auto source = weights::open_weights(weight_fixture("huggingface"));
  weights::write_huggingface_folder(folder / "out", source->config(), "", read_parameters(*source));
  const SafetensorsFile mine(folder / "out/model.safetensors"),
      theirs(weight_fixture("huggingface/model.safetensors"));
  REQUIRE(mine.tensors().size() == theirs.tensors().size());
  CHECK(mine.metadata().at("format") == "pt");
  for (const auto& tensor : theirs.tensors()) {
    CAPTURE(tensor.name);
    const auto* found = mine.find(tensor.name);
    REQUIRE(found != nullptr);
    CHECK(found->shape == tensor.shape);
    std::vector<char> expected(tensor.end - tensor.begin), exported(expected.size());
    theirs.read(tensor, expected.data());
    mine.read(*found, exported.data());
    CHECK(exported == expected);
  }
  const auto config = nlohmann::json::parse(content((folder / "out/config.json").string()));
  const auto expected = nlohmann::json::parse(content(weight_fixture("huggingface/config.json").string()));
  for (const char* key :
       {"model_type", "n_layer", "n_head", "n_embd", "n_positions", "vocab_size", "n_inner",
        "activation_function", "layer_norm_epsilon", "tie_word_embeddings", "architectures"})
    CHECK(config.at(key) == expected.at(key));
}

TEST_CASE("every format is read as it was written", "[weights]") {
  const TemporaryFolder folder;
  const auto parameters = random_parameters(odd_config);
  weights::write_huggingface_folder(folder / "hf", odd_config, "{\"a\":1}", parameters);
  weights::write_llmc_file(folder / "model.bin", odd_config, parameters);
  weights::write_safetensors_weights(folder / "model.safetensors", odd_config, byte_tokenizer, parameters);
  const std::pair<const char*, const char*> files[] = {
      {"hf", "{\"a\":1}"}, {"model.bin", ""}, {"model.safetensors", byte_tokenizer}};
  for (const auto& [name, tokenizer] : files) {
    CAPTURE(name);
    const auto source = weights::open_weights(folder / name);
    CHECK(source->config() == odd_config);
    CHECK(source->tokenizer() == tokenizer);
    CHECK(read_parameters(*source) == parameters);
  }
  // llm.c's train_gpt2 reads version 3 with a vocabulary padded to a multiple of 128.
  const std::string bytes = content((folder / "model.bin").string());
  std::int32_t header[8];
  std::memcpy(header, bytes.data(), sizeof header);
  CHECK(std::vector<std::int32_t>(header, header + 8) ==
        std::vector<std::int32_t>{20240326, 3, 7, 130, 3, 3, 15, 256});
}

TEST_CASE("a Llama is read as it was written", "[weights]") {
  const auto config = GENERATE(odd_llama, tied_llama, wide_llama);
  const TemporaryFolder folder;
  const auto parameters = random_parameters(config);
  weights::write_huggingface_folder(folder / "hf", config, "", parameters);
  weights::write_safetensors_weights(folder / "model.safetensors", config, "", parameters);
  for (const char* name : {"hf", "model.safetensors"}) {
    CAPTURE(name);
    const auto source = weights::open_weights(folder / name);
    CHECK(source->config() == config);
    CHECK(read_parameters(*source) == parameters);
  }
  const SafetensorsFile file(folder / "hf/model.safetensors");
  const std::int64_t width = config.width, kv_width = config.kv_width();
  CHECK(file.find("model.layers.0.self_attn.v_proj.weight")->shape == std::vector{kv_width, width});
  CHECK((file.find("lm_head.weight") == nullptr) == config.llama->tied_output);
}

TEST_CASE("weights in bfloat16 are those in float32, rounded", "[weights]") {
  const TemporaryFolder folder;
  constexpr auto type = weights::ElementType::bfloat16;
  for (const auto& config : {odd_config, odd_llama}) {
    const std::string name = config.llama ? "llama" : "gpt2";
    const auto parameters = random_parameters(config);
    auto rounded = parameters;
    for (float& value : rounded) value = static_cast<float>(bfloat16(value));
    REQUIRE(rounded != parameters);
    std::vector<std::string> written{name, name + ".safetensors"};
    weights::write_huggingface_folder(folder / name, config, "", parameters, type);
    weights::write_safetensors_weights(folder / written.back(), config, "", parameters, type);
    if (!config.llama)
      weights::write_llmc_file(folder / written.emplace_back("model.bin"), config, parameters, type);
    for (const std::string& path : written) {
      CAPTURE(path);
      CHECK(read_parameters(*weights::open_weights(folder / path)) == rounded);
    }
    CHECK(nlohmann::json::parse(content((folder / name / "config.json").string())).at("torch_dtype") ==
          "bfloat16");
  }
}

TEST_CASE("a checkpoint and an output folder are weights, with their tokenizer", "[weights]") {
  const TemporaryFolder folder;
  auto parameters = random_parameters(odd_config);
  TrainingState state;
  state.model = models::gpt_text(odd_config);
  state.tokenizer = "{\"version\": \"1.0\"}";
  std::filesystem::create_directories(folder / "run/checkpoints");
  const auto table = models::gpt_tensors(odd_config);
  for (const std::int64_t step : {3, 20}) {
    state.step = step;
    parameters[0] = static_cast<float>(step);
    auto moments = parameters;
    write_checkpoint(
        folder / ("run/checkpoints/step-000000" + std::string(step < 10 ? "0" : "") + std::to_string(step)),
        state, table, {parameters, moments, moments});
  }
  for (const char* path : {"run", "run/checkpoints", "run/checkpoints/step-00000020"}) {
    const auto source = weights::open_weights(folder / path);
    CHECK(source->config() == odd_config);
    CHECK(source->tokenizer() == state.tokenizer);
    CHECK(read_parameters(*source) == parameters);
  }
  const auto step3 = folder / "run/checkpoints/step-00000003";
  CHECK(read_parameters(*weights::open_weights(step3))[0] == 3);

  SECTION("a changed tokenizer is found") {
    write_file(step3 / "tokenizer.json", "{\"version\": \"1.1\"}");
    CHECK_THAT(weights_refusal(step3), ContainsSubstring("tokenizer.json does not match the hash"));
  }
  SECTION("a changed moment is found, although only parameters are read") {
    std::string bytes = content((step3 / "tensors.safetensors").string());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(step3 / "tensors.safetensors", bytes);
    CHECK_THAT(weights_refusal(step3), ContainsSubstring("do not match the hash"));
  }
}
