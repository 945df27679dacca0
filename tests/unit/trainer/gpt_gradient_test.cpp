// SPDX-License-Identifier: Apache-2.0
// Every tensor's gradient against central differences in double.
#include <cmath>

#include "catch.hpp"
#include "model_fixture.hpp"

using muster::models::Gpt;
using muster::models::GptConfig;

namespace {

/// Central differences with step h have an error of about h^2 |f'''| / 6 + 1e-16 |f| / h; with h = 1e-4 and
/// the losses here that is some 1e-9 of a typical gradient entry. Entries are compared relative to the larger
/// of their own size and a thousandth of their tensor's largest gradient: the smallest ones drown in
/// rounding.
constexpr double step = 1e-4, bound = 1e-5;
constexpr std::size_t samples_per_tensor = 12;

void check_gradients(const GptConfig& config, int batch, int length) {
  auto compute = test_compute<double>();
  Gpt<double> model(config, batch, compute);
  initialize_boldly(model, 3);
  const auto count = static_cast<std::size_t>(batch * length);
  const auto tokens = test_text(count, 1), targets = test_text(count, 2);
  const double scale = 1.0 / static_cast<double>(count);
  model.loss_and_gradients(tokens.data(), targets.data(), batch, length, scale);
  const std::vector<double> gradients(model.gradients().begin(), model.gradients().end());

  for (const auto& tensor : model.table().tensors) {
    double largest = 0;
    for (std::size_t j = 0; j < tensor.count; ++j)
      largest = std::max(largest, std::abs(gradients[tensor.offset + j]));
    CAPTURE(tensor.name, largest);
    REQUIRE(largest > 1e-6);  // a tensor without gradient would pass any comparison
    for (std::size_t sample = 0; sample < samples_per_tensor; ++sample) {
      std::size_t j = muster::uniform_bits(17, tensor.offset, sample) % tensor.count;
      if (tensor.name == "token_embedding" && sample % 2 == 0) {
        j = tokens[sample] * static_cast<std::size_t>(config.width) +
            sample;  // rows that occur, beside random ones
      }
      if (tensor.name == "position_embedding") j %= static_cast<std::size_t>(length * config.width);
      double& parameter = model.parameters()[tensor.offset + j];
      const double original = parameter;
      parameter = original + step;
      const double above = model.loss(tokens.data(), targets.data(), batch, length);
      parameter = original - step;
      const double below = model.loss(tokens.data(), targets.data(), batch, length);
      parameter = original;
      const double expected = (above - below) / (2 * step) * scale;
      const double found = gradients[tensor.offset + j];
      CAPTURE(j, expected, found);
      CHECK(std::abs(found - expected) <=
            bound * std::max({std::abs(expected), std::abs(found), 1e-3 * largest}));
    }
  }
}

}  // namespace

TEST_CASE("every gradient matches finite differences", "[gradient]") {
  SECTION("two layers") { check_gradients({2, 2, 16, 12}, 3, 12); }
  SECTION("odd sizes that fill no vector") { check_gradients({2, 3, 21, 13}, 2, 13); }
  SECTION("more than one attention block") { check_gradients({1, 2, 8, 70}, 1, 70); }
}

TEST_CASE("gradients of positions beyond a shorter sequence are zero", "[gradient]") {
  const GptConfig config{1, 2, 16, 12};
  auto compute = test_compute<double>();
  Gpt<double> model(config, 2, compute);
  initialize_boldly(model, 3);
  const auto text = test_text(40);
  model.loss_and_gradients(text.data(), text.data() + 1, 2, 12, 1.0);
  model.loss_and_gradients(text.data(), text.data() + 1, 2, 5, 1.0);  // nothing may be left of the longer one
  const auto& positions = model.table().tensors[1];
  REQUIRE(positions.name == "position_embedding");
  for (std::size_t j = 0; j < positions.count; ++j) {
    const double gradient = model.gradients()[positions.offset + j];
    CHECK((gradient != 0) == (j < 5 * 16));
  }
}

TEST_CASE("a prediction does not depend on later tokens", "[model]") {
  const GptConfig config{2, 2, 16, 40};
  auto compute = test_compute<double>();
  Gpt<double> model(config, 1, compute);
  initialize_boldly(model, 9);
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
  model.initialize(1);
  const auto text = test_text(129);
  CHECK(model.loss(text.data(), text.data() + 1, 2, 64) / 128 == Approx(std::log(256.0)).margin(0.15));
}
