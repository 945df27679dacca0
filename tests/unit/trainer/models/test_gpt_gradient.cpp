// SPDX-License-Identifier: Apache-2.0
// Compares every tensor's gradient with central differences in double.
#include <cmath>
#include <set>

#include "catch.hpp"
#include "finite_differences.hpp"
#include "model_fixture.hpp"

using muster::compute::Token;
using muster::models::Gpt;
using muster::models::GptConfig;
using muster::models::LlamaConfig;

namespace {

void check_gradients(const GptConfig& config, int batch, int length) {
  auto compute = test_compute<double>();
  Gpt<double> model(config, batch, compute);
  initialize_boldly(model.tensors(), 3);
  const auto count = static_cast<std::size_t>(batch * length);
  auto tokens = test_text(count, 1), targets = test_text(count, 2);
  // The last tokens of a large vocabulary.
  for (auto* text : {&tokens, &targets}) {
    for (auto& token : *text) token = static_cast<Token>(token + (config.vocabulary - 256));
  }
  const double scale = 1.0 / static_cast<double>(count);
  model.loss_and_gradients(tokens.data(), targets.data(), batch, length, scale);
  const auto width = static_cast<std::size_t>(config.width);
  check_gradients_by_differences(
      model.tensors(), scale, [&] { return model.loss(tokens.data(), targets.data(), batch, length); }, {},
      [&](const muster::models::Tensor& tensor, std::size_t sample, std::size_t random) {
        // Rows of tokens that occur, in addition to random ones.
        if (tensor.name == "token_embedding" && sample % 2 == 0)
          return tokens[sample % count] * width + sample;
        if (tensor.name == "position_embedding") return random % (static_cast<std::size_t>(length) * width);
        return random;
      });
}

}  // namespace

TEST_CASE("every gradient matches finite differences", "[gradient]") {
  SECTION("two layers") { check_gradients({2, 2, 16, 12}, 3, 12); }
  SECTION("odd sizes that fill no vector") { check_gradients({2, 3, 21, 13}, 2, 13); }
  SECTION("more than one attention block") { check_gradients({1, 2, 8, 70}, 1, 70); }
  SECTION("tokens that need two bytes") { check_gradients({1, 2, 16, 12, 700}, 3, 12); }
  SECTION("tokens that need four bytes, scaled rotary positions") {
    check_gradients(
        {1, 1, 8, 4, 66000, LlamaConfig{1, 8, 700, 1e-5, true, muster::models::RotaryScaling{8, 1, 4, 64}}},
        1, 4);
  }
  SECTION("the Llama kind") { check_gradients({2, 2, 16, 12, 256, LlamaConfig{2, 24}}, 3, 12); }
  SECTION("queries that share keys and values, odd sizes") {
    check_gradients({2, 6, 36, 13, 300, LlamaConfig{2, 19, 500, 1e-3}}, 2, 13);
  }
  SECTION("one head of keys and values, a tied output, more than one attention block") {
    check_gradients({1, 4, 16, 70, 256, LlamaConfig{1, 20, 1e4, 1e-5, true}}, 1, 70);
  }
}

TEST_CASE("gradients of positions beyond a shorter sequence are zero", "[gradient]") {
  const GptConfig config{1, 2, 16, 12};
  auto compute = test_compute<double>();
  Gpt<double> model(config, 2, compute);
  initialize_boldly(model.tensors(), 3);
  const auto text = test_text(40);
  model.loss_and_gradients(text.data(), text.data() + 1, 2, 12, 1.0);
  model.loss_and_gradients(text.data(), text.data() + 1, 2, 5,
                           1.0);  // nothing of the longer sequence may remain
  const auto& positions = model.tensors().table().tensors[1];
  REQUIRE(positions.name == "position_embedding");
  for (std::size_t j = 0; j < positions.count; ++j) {
    const double gradient = model.tensors().gradients()[positions.offset + j];
    CHECK((gradient != 0) == (j < 5 * 16));
  }
}

TEST_CASE("GPT-2's initial weights, weight decay and FLOPs", "[model]") {
  const GptConfig config{2, 2, 48, 40};
  auto compute = test_compute<double>();
  Gpt<double> model(config, 1, compute);
  model.tensors().initialize(1);
  std::set<double> first;
  const auto& table = model.tensors().table();
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const auto& tensor = table.tensors[i];
    CAPTURE(tensor.name);
    const bool matrix = tensor.shape.size() == 2;
    CHECK(tensor.decay == matrix);
    double sum = 0, squares = 0;
    for (std::size_t j = 0; j < tensor.count; ++j) {
      sum += model.tensors().parameter(i)[j];
      squares += std::pow(model.tensors().parameter(i)[j], 2);
    }
    const auto count = static_cast<double>(tensor.count);
    if (!matrix) {
      CHECK(sum == (tensor.name.ends_with("gain") ? count : 0));
      continue;
    }
    // Projections into the residual stream start smaller, by the root of their number.
    const bool adds = tensor.name.ends_with("output.weight") || tensor.name.ends_with("project.weight");
    CHECK(std::sqrt(squares / count) == Approx(adds ? 0.01 : 0.02).epsilon(0.1));
    CHECK(std::abs(sum / count) < 0.003);
    CHECK(first.insert(model.tensors().parameter(i)[0] / tensor.initial_spread).second);
  }
  // Forward: 2 per matrix weight, and 2 each for scores and values over the whole context; backward twice
  // that (PaLM, arXiv 2204.02311, appendix B).
  const double weights = 2 * 12 * 48 * 48 + 256 * 48, attention = 2 * (2 * 48 * 40 + 2 * 48 * 40);
  CHECK(muster::models::gpt_flops_per_token(config) == 3 * (2 * weights + attention));
}

TEST_CASE("a prediction does not depend on later tokens", "[model]") {
  const GptConfig config{2, 2, 16, 40};
  auto compute = test_compute<double>();
  Gpt<double> model(config, 1, compute);
  initialize_boldly(model.tensors(), 9);
  auto text = test_text(41);
  const double before = model.loss(text.data(), text.data() + 1, 1, 20);
  const double whole = model.loss(text.data(), text.data() + 1, 1, 40);
  for (std::size_t i = 20; i < text.size(); ++i) text[i] ^= 1;
  text[20] ^= 1;  // token 20 is the target of prediction 19
  CHECK(model.loss(text.data(), text.data() + 1, 1, 20) == before);
  CHECK(model.loss(text.data(), text.data() + 1, 1, 40) != whole);
}

TEST_CASE("the loss of an untrained model is close to that of guessing", "[model]") {
  const GptConfig config;
  auto compute = test_compute<float>();
  Gpt<float> model(config, 2, compute);
  model.tensors().initialize(1);
  const auto text = test_text(129);
  CHECK(model.loss(text.data(), text.data() + 1, 2, 64) / 128 == Approx(std::log(256.0)).margin(0.15));
}
