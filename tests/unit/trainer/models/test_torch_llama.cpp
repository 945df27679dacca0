// SPDX-License-Identifier: Apache-2.0
// Compares the Llama kind with transformers in double, and its training with PyTorch's AdamW in float;
// fixtures/torch_llama.py wrote the expected values.
#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "content.hpp"
#include "model_fixture.hpp"
#include "optimizer/optimizer.hpp"

using muster::compute::Token;
using namespace muster::models;

namespace {

constexpr double llama_bound = 1e-9;

nlohmann::json expected_of_torch() {
  return nlohmann::json::parse(content(std::filesystem::path(MUSTER_TRAINER_FIXTURES) / "torch_llama.json"));
}

/// The script's samples.
struct LlamaSamples {
  std::vector<Token> tokens, targets;
  LlamaSamples(int batch, const GptConfig& config, int shift = 0) {
    for (int i = 0; i < batch * config.context; ++i) {
      tokens.push_back(static_cast<Token>((7 * i + 3 + shift) % config.vocabulary));
      targets.push_back(static_cast<Token>((5 * i * i + 1 + shift) % config.vocabulary));
    }
  }
};

void check_llama_gradients(const GptConfig& config, const nlohmann::json& expected) {
  const int batch = 3;
  auto compute = test_compute<double>();
  Gpt<double> model(config, batch, compute);
  fill_as_the_scripts(model.tensors(), 0.3);
  const LlamaSamples samples(batch, config);
  const double loss =
      model.loss_and_gradients(samples.tokens.data(), samples.targets.data(), batch, config.context, 1.0);
  CHECK(loss == Approx(expected.at("loss").get<double>()).epsilon(llama_bound));
  CHECK(model.loss(samples.tokens.data(), samples.targets.data(), batch, config.context) == loss);
  const auto& table = model.tensors().table().tensors;
  REQUIRE(expected.at("gradients").size() == table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto gradient = expected.at("gradients").at(table[i].name).get<std::vector<double>>();
    CAPTURE(table[i].name);
    REQUIRE(gradient.size() == table[i].count);
    double difference = 0, size = 0;
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      difference += std::pow(model.tensors().gradient(i)[j] - gradient[j], 2);
      size += gradient[j] * gradient[j];
    }
    REQUIRE(size > 1e-12);
    CHECK(std::sqrt(difference) <= llama_bound * std::sqrt(size));
  }
}

}  // namespace

TEST_CASE("Llama's loss and every gradient equal transformers' within 1e-9", "[torch]") {
  const auto expected = expected_of_torch();
  SECTION("an output layer of its own") {
    check_llama_gradients({2, 4, 16, 5, 11, LlamaConfig{2, 10, 100, 1e-5, false}}, expected.at("untied"));
  }
  SECTION("a tied output layer, one head of keys and values") {
    check_llama_gradients({1, 4, 16, 5, 11, LlamaConfig{1, 10, 100, 1e-3, true}}, expected.at("tied"));
  }
}

TEST_CASE("twenty steps of AdamW on a Llama in float follow PyTorch's within 1e-4", "[torch]") {
  const bool use_dnnl = GENERATE(true, false);
  CAPTURE(use_dnnl);
  const auto losses = expected_of_torch().at("losses").get<std::vector<double>>();
  REQUIRE(losses.size() == 20);
  const int batch = 4;
  const GptConfig config{2, 6, 48, 40, 61, LlamaConfig{3, 80, 100, 1e-5, false}};
  auto compute = test_compute<float>(1, use_dnnl);
  Gpt<float> model(config, batch, compute);
  fill_as_the_scripts(model.tensors(), 0.1);
  auto& tensors = model.tensors();
  muster::OptimizerSettings settings;
  settings.beta2 = 0.95;
  settings.clip = 0;
  muster::Optimizer<float> optimizer(tensors.table(), settings, compute);
  for (int step = 0; step < 20; ++step) {
    const LlamaSamples samples(batch, config, step % 3);
    const int count = batch * config.context;
    const double loss = model.loss_and_gradients(samples.tokens.data(), samples.targets.data(), batch,
                                                 config.context, 1.0F / static_cast<float>(count)) /
                        count;
    CAPTURE(step);
    CHECK(loss == Approx(losses[static_cast<std::size_t>(step)]).epsilon(1e-4));
    optimizer.update(tensors.parameters(), tensors.gradients(), 0, 3e-3, step);
  }
}
