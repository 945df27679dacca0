// SPDX-License-Identifier: Apache-2.0
// Compares losses and gradients in double with PyTorch's autograd; fixtures/torch_gradients.py wrote the
// expected values.
#include <cmath>

#include "catch.hpp"
#include "model_fixture.hpp"
#include "models/conv_net.hpp"
#include "models/mnist_cnn.hpp"
#include "torch_fixture.hpp"

using muster::compute::Token;

TEST_CASE("GPT's loss and every gradient equal PyTorch's within 1e-9", "[torch]") {
  const auto expected = torch_result("torch_gpt.json");
  const int batch = 3, context = 5, vocabulary = 11;
  auto compute = test_compute<double>();
  muster::models::Gpt<double> model({2, 2, 4, context, vocabulary}, batch, compute);
  fill_as_the_scripts(model.tensors(), 0.3);
  std::vector<Token> tokens, targets;
  for (int i = 0; i < batch * context; ++i) {
    tokens.push_back(static_cast<Token>((7 * i + 3) % vocabulary));
    targets.push_back(static_cast<Token>((5 * i * i + 1) % vocabulary));
  }
  const double loss = model.loss_and_gradients(tokens.data(), targets.data(), batch, context, 1.0);
  CHECK(loss == Approx(expected.at("loss").get<double>()).epsilon(torch_bound));
  check_gradients(model.tensors(), expected.at("gradients"));
}

TEST_CASE("mnist-cnn's loss and gradients with dropout equal PyTorch's within 1e-9", "[torch]") {
  const auto expected = torch_result("torch_mnist_cnn.json");
  const int batch = 3;
  auto compute = test_compute<double>();
  muster::models::ConvNet<double> model(muster::models::mnist_cnn(), batch, compute);
  fill_as_the_scripts(model.tensors(), 0.3);
  std::vector<double> images, channels, hidden;
  for (int i = 0; i < batch * 784; ++i) images.push_back(std::sin(0.37 * i + 0.001 * i * i));
  for (int i = 0; i < batch * 20; ++i) channels.push_back(7 * i % 3 != 0 ? 2 : 0);
  for (int i = 0; i < batch * 50; ++i) hidden.push_back(5 * i % 3 != 0 ? 2 : 0);
  const Token labels[] = {1, 4, 7};
  const double loss =
      model.loss_and_gradients(images.data(), labels, batch, {channels.data(), hidden.data()}, 1.0).loss;
  CHECK(loss == Approx(expected.at("loss").get<double>()).epsilon(torch_bound));
  const auto& table = model.tensors().table().tensors;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto& gradient = expected.at("gradients").at(table[i].name);
    const double norm = gradient.at("norm").get<double>();
    const auto elements = gradient.at("elements").get<std::vector<double>>();
    const auto stride = gradient.at("stride").get<std::size_t>();
    CAPTURE(table[i].name);
    double squares = 0;
    for (std::size_t j = 0; j < table[i].count; ++j) squares += std::pow(model.tensors().gradient(i)[j], 2);
    REQUIRE(norm > 1e-6);
    CHECK(std::sqrt(squares) == Approx(norm).epsilon(torch_bound));
    for (std::size_t k = 0; k < elements.size(); ++k)
      CHECK(std::abs(model.tensors().gradient(i)[k * stride] - elements[k]) <= torch_bound * norm);
  }
}
