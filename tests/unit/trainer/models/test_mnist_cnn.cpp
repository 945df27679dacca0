// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.hpp"
#include "finite_differences.hpp"
#include "model_fixture.hpp"
#include "models/conv_net.hpp"
#include "models/mnist_cnn.hpp"

using muster::compute::Token;
using muster::models::ConvNet;
using muster::models::mnist_cnn;

namespace {

constexpr int image_batch = 3;

struct ImageBatch {
  std::vector<double> images = std::vector<double>(image_batch * 784),
                      channels = std::vector<double>(image_batch * 20),
                      hidden = std::vector<double>(image_batch * 50);
  std::vector<Token> labels{7, 0, 3};

  ImageBatch() {
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = muster::normal(9, 1, i);
    for (std::size_t i = 0; i < channels.size(); ++i) channels[i] = muster::uniform_bits(9, 2, i) % 2 ? 2 : 0;
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = muster::uniform_bits(9, 3, i) % 2 ? 2 : 0;
  }
};

}  // namespace

TEST_CASE("Horovod's network has 21,840 parameters, all of which the gradient covers", "[mnist-cnn]") {
  const auto table = mnist_cnn().table;
  CHECK(table.parameter_count == 21840);
  auto compute = test_compute<double>();
  ConvNet<double> model(mnist_cnn(), image_batch, compute);
  model.tensors().initialize(1);
  double largest = 0;
  for (const double value : model.tensors().parameters()) largest = std::max(largest, std::abs(value));
  CHECK(largest <= 0.2);  // 1 / sqrt(25), the bound of the first convolution
  CHECK(largest > 0.19);
  const ImageBatch batch;
  std::vector<std::size_t> order;
  model.loss_and_gradients(batch.images.data(), batch.labels.data(), image_batch, {}, 1.0,
                           [&](std::size_t tensor) { order.push_back(tensor); });
  CHECK(order == std::vector<std::size_t>{7, 6, 5, 4, 3, 2, 1, 0});
  // The convolutions take 576 * 25 * 10 and 64 * 250 * 20 multiplications.
  CHECK(mnist_cnn().flops_per_image() == 4 * 144000.0 + 6 * (320000.0 + 16000.0 + 500.0));
}

TEST_CASE("every gradient of the network on images matches finite differences", "[mnist-cnn]") {
  auto compute = test_compute<double>();
  ConvNet<double> model(mnist_cnn(), image_batch, compute);
  initialize_boldly(model.tensors(), 3);
  const ImageBatch batch;
  const double scale = 1.0 / image_batch;
  // So small that a step rarely crosses a kink of max() or ReLU.
  const Differences how{1e-6, 1e-5, 12};
  const auto check = [&](const ConvNet<double>::Dropout& dropout) {
    model.loss_and_gradients(batch.images.data(), batch.labels.data(), image_batch, dropout, scale);
    check_gradients_by_differences(
        model.tensors(), scale,
        [&] {
          return model
              .loss_and_gradients(batch.images.data(), batch.labels.data(), image_batch, dropout, scale)
              .loss;
        },
        how);
  };
  SECTION("without dropout") { check({}); }
  SECTION("with dropout") { check({batch.channels.data(), batch.hidden.data()}); }
}

TEST_CASE("the network on images in float agrees with double, threads and oneDNN included", "[mnist-cnn]") {
  const ImageBatch batch;
  auto exact_compute = test_compute<double>();
  ConvNet<double> exact(mnist_cnn(), image_batch, exact_compute);
  initialize_boldly(exact.tensors(), 3);
  const auto expected =
      exact.loss_and_gradients(batch.images.data(), batch.labels.data(), image_batch, {}, 1.0 / image_batch);
  const std::vector<float> images(batch.images.begin(), batch.images.end());
  for (const bool use_dnnl : {true, false}) {
    auto compute = test_compute<float>(2, use_dnnl);
    ConvNet<float> model(mnist_cnn(), image_batch, compute);
    initialize_boldly(model.tensors(), 3);
    const auto found =
        model.loss_and_gradients(images.data(), batch.labels.data(), image_batch, {}, 1.0f / image_batch);
    CHECK(found.loss == Approx(expected.loss).epsilon(1e-5));
    CHECK(found.right == expected.right);
    for (std::size_t i = 0; i < exact.tensors().table().tensors.size(); ++i) {
      const auto& tensor = exact.tensors().table().tensors[i];
      double difference = 0, size = 0;
      for (std::size_t j = 0; j < tensor.count; ++j) {
        const double e = exact.tensors().gradient(i)[j];
        difference += std::pow(double{model.tensors().gradient(i)[j]} - e, 2);
        size += e * e;
      }
      CAPTURE(tensor.name);
      CHECK(std::sqrt(difference / size) < 1e-4);
    }
  }
}

TEST_CASE("when a pixel is NaN, the loss is NaN", "[mnist-cnn]") {
  auto compute = test_compute<float>();
  ConvNet<float> model(mnist_cnn(), 1, compute);
  model.tensors().initialize(1);
  for (const std::size_t at : {0u, 400u, 783u}) {
    std::vector<float> image(784, 0.1f);
    image[at] = std::nanf("");
    const Token label = 3;
    CHECK(std::isnan(model.loss(image.data(), &label, 1).loss));
  }
}
