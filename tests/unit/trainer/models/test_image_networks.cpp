// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.hpp"
#include "model_fixture.hpp"
#include "models/conv_net.hpp"
#include "models/mnist_cnn.hpp"
#include "models/mobilenet.hpp"
#include "models/model_memory.hpp"
#include "models/named_network.hpp"
#include "models/resnet.hpp"
#include "optimizer/optimizer.hpp"

using namespace muster;
using namespace muster::models;

TEST_CASE("the networks have the published numbers of parameters", "[networks]") {
  const std::pair<int, std::size_t> resnets[] = {
      {3, 269722}, {5, 464154}, {7, 658586}, {9, 853018}, {18, 1727962}};
  for (const auto& [blocks, parameters] : resnets) {
    CHECK(resnet_cifar(blocks, 10).table.parameter_count == parameters);
    CHECK(resnet_cifar(blocks, 100).table.parameter_count == parameters + 5850);
  }
  CHECK(resnet50(1000).table.parameter_count == 25557032);
  CHECK(resnet50(12).table.parameter_count == 23532620);
  const std::pair<double, std::size_t> mobilenets[] = {
      {1.0, 4231976}, {0.75, 2585560}, {0.5, 1331592}, {0.25, 470072}};
  for (const auto& [width, parameters] : mobilenets)
    CHECK(mobilenet_v1(width, 1000).table.parameter_count == parameters);
}

TEST_CASE("the text of a network gives the same network", "[networks]") {
  for (const auto& [name, width, classes] :
       {std::tuple("resnet56", 1.0, 100), std::tuple("resnet50", 1.0, 12),
        std::tuple("mobilenet-v1", 0.25, 3), std::tuple("mnist-cnn", 1.0, 10)}) {
    const ImageNetwork network = named_network(name, width, classes, {32, 32, 3});
    const auto parsed = parse_network_text(network.text);
    REQUIRE(parsed);
    CHECK(parsed->name == name);
    CHECK(named_network(parsed->name, parsed->width, parsed->classes, {32, 32, 3}).text == network.text);
  }
  for (const char* text :
       {"", "resnet56", "resnet57 classes=10", "resnet56 classes=ten", "resnet56 classes=-1",
        "mobilenet-v1 width=1e9 classes=10", "resnet56 classes=10 more", "gpt layers=1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_network_text(text));
  }
}

TEST_CASE("the networks need the published numbers of operations", "[networks]") {
  // 568.7 million multiply-adds at 224 x 224, of which the first convolution's 10.8 million need no gradient
  // of the images.
  CHECK(mobilenet_v1(1, 1000).flops_per_image() == Approx(6 * 568.7e6 - 2 * 10.84e6).epsilon(1e-3));
  CHECK(resnet50(1000).flops_per_image() == Approx(6 * 4.09e9 - 2 * 0.118e9).epsilon(2e-3));
}

TEST_CASE("a deep network needs few buffers for gradients", "[networks]") {
  CHECK(GradientPlan(resnet_cifar(18, 10)).buffers.size() <= 4);
  CHECK(GradientPlan(resnet50(10)).buffers.size() <= 4);
  CHECK(GradientPlan(mobilenet_v1(1, 10)).buffers.size() <= 2);
}

TEST_CASE("image networks allocate exactly the estimated memory", "[networks]") {
  auto compute = test_compute<float>();
  auto rounding = test_compute<bfloat16>();
  for (const ImageNetwork& network :
       {mnist_cnn(), resnet_cifar(1, 10), mobilenet_v1(0.25, 7, {32, 32, 3}), resnet50(3, {32, 32, 3})}) {
    CHECK(total_bytes(conv_net_memory(network, 3, 4, 3)) == ConvNet<float>(network, 3, compute, 3).bytes());
    CHECK(total_bytes(conv_net_memory(network, 3, 2, 3)) ==
          ConvNet<bfloat16>(network, 3, rounding, 3).bytes());
  }
}

TEST_CASE("statistics come last in the table and no optimizer updates them", "[networks]") {
  auto compute = test_compute<float>();
  ConvNet<float> model(resnet_cifar(1, 10, {8, 8, 3}), 4, compute);
  auto& tensors = model.tensors();
  tensors.initialize(1);
  const TensorTable& table = tensors.table();
  const std::vector<float> images(4 * 192, 0.5f);
  const compute::Token labels[] = {1, 2, 3, 4};
  model.loss_and_gradients(images.data(), labels, 4, {}, 0.25f);
  const std::vector<float> before(tensors.parameters().begin(), tensors.parameters().end());
  Optimizer<float> optimizer(table, {}, compute);
  optimizer.update(tensors.parameters(), tensors.gradients(), 1, 1e-2, 0);
  bool seen_statistic = false;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& tensor = table.tensors[i];
    CAPTURE(tensor.name);
    seen_statistic = seen_statistic || !tensor.is_trained;
    CHECK(tensor.is_trained == !seen_statistic);
    CHECK(tensor.is_trained == (tensor.offset < table.trained_size));
    const float *now = tensors.parameter(i), *old = before.data() + tensor.offset;
    CHECK(std::equal(now, now + tensor.count, old) == !tensor.is_trained);
  }
  CHECK(seen_statistic);
  const std::size_t middle = table.trained_size + 5;
  tensors.update_statistics(compute, {0, middle});
  tensors.update_statistics(compute, {middle, table.arena_size});
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    if (table.tensors[i].is_trained) continue;
    for (std::size_t j = 0; j < table.tensors[i].count; ++j) {
      CHECK(tensors.parameter(i)[j] ==
            Approx(0.9f * before[table.tensors[i].offset + j] + 0.1f * tensors.gradient(i)[j]));
    }
  }
}

TEST_CASE("the statistics of two halves are weighted by their samples", "[networks]") {
  auto compute = test_compute<double>();
  const ImageNetwork network = resnet_cifar(1, 10, {8, 8, 3});
  ConvNet<double> model(network, 4, compute);
  model.tensors().initialize(1);
  std::vector<double> images(4 * 192);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = normal(5, 1, i);
  const compute::Token labels[] = {1, 2, 3, 4};
  std::size_t first = 0;
  while (network.table.tensors[first].is_trained) ++first;  // bn1.running_mean
  const auto mean_of = [&](std::size_t from, int count) {
    model.loss_and_gradients(images.data() + from * 192, labels + from, count, {}, 0.25);
    return model.tensors().gradient(first)[0];
  };
  const double whole = mean_of(0, 4);
  CHECK(mean_of(0, 1) + mean_of(1, 3) == Approx(whole).epsilon(1e-12));
}

TEST_CASE("synchronized batch normalization computes two halves as one batch", "[networks]") {
  auto compute = test_compute<double>();
  const ImageNetwork network = resnet_cifar(1, 10, {8, 8, 3});
  ConvNet<double> whole(network, 4, compute);
  whole.tensors().initialize(1);
  std::vector<double> images(4 * 192);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = normal(5, 1, i);
  const compute::Token labels[] = {1, 2, 3, 4};
  const double loss = whole.loss_and_gradients(images.data(), labels, 4, {}, 0.25).loss;

  // Equal halves on two ranks that have the same samples: each all-reduce doubles the values.
  ConvNet<double> half(network, 2, compute);
  half.tensors().initialize(1);
  half.synchronize_batch_norm([](std::span<double> values) {
    for (double& value : values) value *= 2;
  });
  std::vector<double> twice(images.begin(), images.begin() + 2 * 192);
  twice.insert(twice.end(), images.begin(), images.begin() + 2 * 192);
  const compute::Token twice_labels[] = {1, 2, 1, 2};
  const double twice_loss = whole.loss_and_gradients(twice.data(), twice_labels, 4, {}, 0.25).loss;
  const double half_loss = half.loss_and_gradients(images.data(), labels, 2, {}, 0.25).loss;
  CHECK(half_loss * 2 == Approx(twice_loss).epsilon(1e-12));
  CHECK(std::abs(twice_loss - loss) > 1e-3);
  for (std::size_t i = 0; i < network.table.tensors.size(); ++i) {
    CAPTURE(network.table.tensors[i].name);
    for (std::size_t j = 0; j < network.table.tensors[i].count; ++j) {
      const double expected = whole.tensors().gradient(i)[j];
      CHECK(std::abs(half.tensors().gradient(i)[j] * 2 - expected) <= 1e-9 * (1 + std::abs(expected)));
    }
  }
}
