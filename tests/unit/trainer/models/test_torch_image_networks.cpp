// SPDX-License-Identifier: Apache-2.0
// Compares the image networks with PyTorch; fixtures/torch_image_networks.py wrote the expected values.
#include <cmath>

#include "catch.hpp"
#include "model_fixture.hpp"
#include "models/conv_net.hpp"
#include "models/mobilenet.hpp"
#include "models/resnet.hpp"
#include "optimizer/optimizer.hpp"
#include "torch_fixture.hpp"

using muster::compute::Token;
using namespace muster::models;

namespace {

/// Number `index` of those that follow from a name, in [-0.5, 0.5), as in the script.
double scattered(const std::string& name, std::uint64_t index) {
  std::uint64_t seed = 0;
  for (const char character : name) seed = (seed * 31 + static_cast<unsigned char>(character)) & 0xffffffffu;
  std::uint64_t h = (index * 2654435761u + seed) & 0xffffffffu;
  h ^= h >> 15;
  h = (h * 2246822519u) & 0xffffffffu;
  h ^= h >> 13;
  return static_cast<double>(h) / 0x1p32 - 0.5;
}

template <typename Real>
void fill_scattered(ModelTensors<Real>& tensors) {
  const auto& table = tensors.table().tensors;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Tensor& tensor = table[i];
    const bool around_one = tensor.shape.size() == 1 && tensor.initial_value == 1;
    const double size =
        tensor.shape.size() > 1
            ? std::sqrt(24.0 * static_cast<double>(tensor.shape[0]) / static_cast<double>(tensor.count))
            : 1;
    for (std::size_t j = 0; j < tensor.count; ++j) {
      const double value = scattered(tensor.name, j) * size;
      tensors.parameter(i)[j] = Real(around_one ? value * 0.5 + 1 : value);
    }
  }
}

/// The script's samples, with the channels last.
template <typename Real>
struct Samples {
  std::vector<Real> images;
  std::vector<Token> labels;

  Samples(int batch, const ImageSize& size, int classes, int number = 0) {
    const std::string name = "images " + std::to_string(number);
    const auto channels = static_cast<std::size_t>(size.channels);
    images.resize(static_cast<std::size_t>(batch) * size.elements());
    for (std::size_t i = 0; i < images.size(); ++i) {
      const std::size_t image = i / size.elements(), pixel = i / channels % size.pixels();
      images[i] = Real(scattered(name, image * size.elements() + i % channels * size.pixels() + pixel) * 4);
    }
    for (int i = 0; i < batch; ++i) labels.push_back(static_cast<Token>((3 * i + 1 + number) % classes));
  }
};

ImageNetwork network_of(const std::string& name, int classes, const ImageSize& size) {
  if (name == "resnet20") return resnet_cifar(3, classes, size);
  if (name == "resnet56") return resnet_cifar(9, classes, size);
  if (name == "resnet50") return resnet50(classes, size);
  return mobilenet_v1(0.25, classes, size);
}

/// Gradients of a tensor against [norm, weighted sum, first, middle and last element].
void check_gradient(const Tensor& tensor, const double* gradient, const std::vector<double>& expected) {
  CAPTURE(tensor.name);
  double squares = 0, probe = 0;
  for (std::size_t j = 0; j < tensor.count; ++j) {
    squares += gradient[j] * gradient[j];
    probe += gradient[j] * scattered("probe", j);
  }
  const double norm = expected.at(0), bound = torch_bound * norm;
  REQUIRE(norm > 1e-6);
  CHECK(std::abs(std::sqrt(squares) - norm) <= bound);
  CHECK(std::abs(probe - expected.at(1)) <= bound);
  CHECK(std::abs(gradient[0] - expected.at(2)) <= bound);
  CHECK(std::abs(gradient[tensor.count / 2] - expected.at(3)) <= bound);
  CHECK(std::abs(gradient[tensor.count - 1] - expected.at(4)) <= bound);
}

}  // namespace

TEST_CASE("image networks' losses, gradients and batch statistics equal PyTorch's within 1e-9", "[torch]") {
  const std::string name = GENERATE("resnet20", "resnet56", "resnet50", "mobilenet-v1");
  CAPTURE(name);
  const auto expected = torch_result("torch_" + name + ".json");
  const int batch = expected.at("batch"), classes = expected.at("classes");
  const ImageSize size{expected.at("height"), expected.at("width"), 3};
  auto compute = test_compute<double>(2);
  ConvNet<double> model(network_of(name, classes, size), batch, compute);
  fill_scattered(model.tensors());
  const Samples<double> samples(batch, size, classes);
  const auto close = [](double value) { return Approx(value).epsilon(torch_bound); };
  CHECK(model.loss(samples.images.data(), samples.labels.data(), batch).loss ==
        close(expected.at("validation").get<double>()));
  const double loss =
      model.loss_and_gradients(samples.images.data(), samples.labels.data(), batch, {}, 1.0).loss;
  CHECK(loss == close(expected.at("loss").get<double>()));
  const auto& table = model.tensors().table().tensors;
  REQUIRE(expected.at("gradients").size() == table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    check_gradient(table[i], model.tensors().gradient(i),
                   expected.at("gradients").at(table[i].name).get<std::vector<double>>());
  }
}

TEST_CASE("twenty steps of AdamW and SGD in float follow PyTorch's within 1e-4", "[torch]") {
  const bool adamw = GENERATE(true, false), use_dnnl = GENERATE(true, false);
  CAPTURE(adamw, use_dnnl);
  const auto expected = torch_result("torch_trajectory.json").at(adamw ? "adamw" : "sgd");
  const int batch = 16;
  const ImageSize size{16, 16, 3};
  auto compute = test_compute<float>(1, use_dnnl);
  ConvNet<float> model(resnet_cifar(3, 10, size), batch, compute);
  fill_scattered(model.tensors());
  auto& tensors = model.tensors();
  const auto& table = tensors.table();
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    if (!table.tensors[i].is_trained)
      std::fill_n(tensors.parameter(i), table.tensors[i].count, float(table.tensors[i].initial_value));
  }
  muster::OptimizerSettings settings;
  settings.clip = 0;
  muster::Optimizer<float> optimizer(table, settings, compute);
  for (int step = 0; step < 20; ++step) {
    const Samples<float> samples(batch, size, 10, step % 4);
    const double loss = model
                            .loss_and_gradients(samples.images.data(), samples.labels.data(), batch, {},
                                                1.0f / static_cast<float>(batch))
                            .loss /
                        batch;
    CAPTURE(step);
    CHECK(loss ==
          Approx(expected.at("losses").at(static_cast<std::size_t>(step)).get<double>()).epsilon(1e-4));
    if (adamw) {
      optimizer.update(tensors.parameters(), tensors.gradients(), 0, 1e-4, step);
    } else {
      for (std::size_t i = 0; i < table.trained_size; ++i)
        tensors.parameters()[i] -= 0.0005f * tensors.gradients()[i];
    }
    tensors.update_statistics(compute);
  }
  const Samples<float> samples(batch, size, 10, 9);
  CHECK(model.loss(samples.images.data(), samples.labels.data(), batch).loss / batch ==
        Approx(expected.at("validation").get<double>()).epsilon(1e-4));
}
