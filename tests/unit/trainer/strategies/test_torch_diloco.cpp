// SPDX-License-Identifier: Apache-2.0
// Compares a GPT that two unequal workers train by DiLoCo in double with PyTorch's; fixtures/
// torch_gradients.py wrote the expected values.
#include <array>
#include <cmath>
#include <deque>

#include "catch.hpp"
#include "optimizer/optimizer.hpp"
#include "strategies/local_sgd/outer_optimizer.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/models/torch_fixture.hpp"

using namespace muster;
using compute::Token;

namespace {

constexpr int context = 5, vocabulary = 11;
constexpr std::array samples{2, 1};

/// The mean loss of worker `w` on its samples of this step, with the gradients of that.
double compute_gradients(models::Gpt<double>& model, int w, int step) {
  const int batch = samples[static_cast<std::size_t>(w)], count = batch * context;
  std::vector<Token> tokens, targets;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>((7 * i + 3 + 5 * step + 2 * w) % vocabulary));
    targets.push_back(static_cast<Token>((5 * i * i + 1 + 3 * step + w) % vocabulary));
  }
  return model.loss_and_gradients(tokens.data(), targets.data(), batch, context, 1.0 / count) / count;
}

}  // namespace

TEST_CASE("DiLoCo in double follows PyTorch's within 1e-9", "[torch][strategies]") {
  const auto expected = torch_result("torch_diloco.json");
  auto compute = test_compute<double>();
  std::deque<models::Gpt<double>> models;
  std::deque<Optimizer<double>> inner;
  OptimizerSettings settings;
  settings.clip = 0;
  for (const int batch : samples) {
    auto& tensors =
        models.emplace_back(models::GptConfig{1, 2, 4, context, vocabulary}, batch, compute).tensors();
    fill_as_the_scripts(tensors, 0.3);
    inner.emplace_back(tensors.table(), settings, compute);
  }
  const auto& table = models[0].tensors().table();
  OuterOptimizer<double> outer({true, 0.7, 0.9}, table.arena_size, table.trained_size, 1);
  outer.start_from(models[0].tensors().parameters());
  std::vector<double> mean(table.arena_size);
  for (int step = 0; step < 12; ++step) {
    for (std::size_t w = 0; w < 2; ++w) {
      auto& tensors = models[w].tensors();
      CAPTURE(step, w);
      CHECK(compute_gradients(models[w], static_cast<int>(w), step) ==
            Approx(expected.at("losses").at(2 * static_cast<std::size_t>(step) + w).get<double>())
                .epsilon(torch_bound));
      inner[w].update(tensors.parameters(), tensors.gradients(), 0, 1e-2, step);
    }
    if (step % 3 < 2) continue;
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] = (2 * models[0].tensors().parameters()[i] + models[1].tensors().parameters()[i]) / 3;
    outer.update(mean);
    for (auto& model : models) std::copy(mean.begin(), mean.end(), model.tensors().parameters().begin());
  }
  REQUIRE(expected.at("parameters").size() == table.tensors.size());
  for (const auto& tensor : table.tensors) {
    const auto values = expected.at("parameters").at(tensor.name).get<std::vector<double>>();
    REQUIRE(values.size() == tensor.count);
    for (std::size_t j = 0; j < tensor.count; ++j)
      CHECK(std::abs(outer.parameters()[tensor.offset + j] - values[j]) <= torch_bound);
  }
}

TEST_CASE("the outer optimizer has the same bits for any number of threads, and averages statistics",
          "[strategies]") {
  const auto run = [](int threads) {
    OuterOptimizer<float> outer({true, 0.7, 0.9}, 40, 32, threads);
    std::vector<float> mean(40);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += std::sin(static_cast<float>(i) + static_cast<float>(round));
      if (round < 2) outer.update(mean);
    }
    const float statistic = mean[35];
    outer.update(mean);
    CHECK(mean[35] == statistic);
    CHECK(outer.parameters()[35] == statistic);
    CHECK(outer.momentum()[35] == 0);
    CHECK(outer.momentum()[3] != 0);
    return mean;
  };
  CHECK(run(1) == run(3));
}
