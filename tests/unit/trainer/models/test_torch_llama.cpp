// SPDX-License-Identifier: Apache-2.0
// Compares the Llama kind with transformers in double, and its training with PyTorch's AdamW in float;
// fixtures/torch_llama.py wrote the expected values.
#include "catch.hpp"
#include "model_fixture.hpp"
#include "optimizer/optimizer.hpp"
#include "torch_fixture.hpp"

using muster::compute::Token;
using namespace muster::models;

namespace {

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
  CHECK(loss == Approx(expected.at("loss").get<double>()).epsilon(torch_bound));
  CHECK(model.loss(samples.tokens.data(), samples.targets.data(), batch, config.context) == loss);
  check_gradients(model.tensors(), expected.at("gradients"));
}

}  // namespace

TEST_CASE("Llama's loss and every gradient equal transformers' within 1e-9", "[torch]") {
  const auto expected = torch_result("torch_llama.json");
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
  const auto losses = torch_result("torch_llama.json").at("losses").get<std::vector<double>>();
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
