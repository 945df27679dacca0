// SPDX-License-Identifier: Apache-2.0
// A network on images that is divided into stages computes the bits of the whole one.
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "model_fixture.hpp"
#include "models/conv_net.hpp"
#include "models/mnist_cnn.hpp"
#include "models/mobilenet.hpp"
#include "models/model_memory.hpp"
#include "models/resnet.hpp"

using namespace muster;
using namespace muster::models;

namespace {

constexpr int images_each = 3, micro_batches = 2;

template <typename Real>
using NetworkGradients = std::map<std::string, std::vector<compute::Accurate<Real>>>;

template <typename Real>
NetworkGradients<Real> network_gradients(ModelTensors<compute::Accurate<Real>>& tensors) {
  NetworkGradients<Real> all;
  for (std::size_t i = 0; i < tensors.table().tensors.size(); ++i) {
    const Tensor& tensor = tensors.table().tensors[i];
    all[tensor.name].assign(tensors.gradient(i), tensors.gradient(i) + tensor.count);
  }
  return all;
}

/// Random images, labels and factors of dropout of one micro-batch.
template <typename Real>
struct MicroBatch {
  MicroBatch(const ImageNetwork& network, std::uint64_t seed)
      : images(images_each * network.images().elements()) {
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = Real(static_cast<float>(normal(seed, 1, i)));
    for (int i = 0; i < images_each; ++i) labels.push_back((i + static_cast<int>(seed)) % network.classes());
    for (const int channels : network.dropout) {
      auto& factors = dropped.emplace_back(static_cast<std::size_t>(images_each * channels));
      for (std::size_t i = 0; i < factors.size(); ++i)
        factors[i] = Real(uniform_bits(seed, 2, i) % 2 == 0 ? 0.0f : 2.0f);
    }
  }
  /// The factors of a stage's dropouts.
  typename ConvNet<Real>::Dropout dropout(std::size_t first, std::size_t count) const {
    typename ConvNet<Real>::Dropout factors;
    for (std::size_t i = first; i < first + count; ++i) factors.push_back(dropped[i].data());
    return factors;
  }
  std::vector<Real> images;
  std::vector<compute::Token> labels;
  std::vector<std::vector<Real>> dropped;
};

/// Stages that begin with these blocks, with two micro-batches in flight on one device.
template <typename Real>
struct DividedNetwork {
  /// `in_halves`: the backward passes are computed in halves, all second ones behind all first ones.
  DividedNetwork(const ImageNetwork& network, const std::vector<int>& begins, bool in_halves,
                 compute::Compute<Real>& compute) {
    const std::vector<std::size_t> ends = block_ends(network);
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const int end = i + 1 < begins.size() ? begins[i + 1] : static_cast<int>(ends.size());
      const NetworkStage& part = parts.emplace_back(take_blocks(network, ends, {begins[i], end}));
      const ConvNetSizes sizes{images_each + 2, images_each, micro_batches, in_halves ? micro_batches : 0};
      nets.push_back(std::make_unique<ConvNet<Real>>(part, sizes, compute, 3));
      CHECK(nets.back()->bytes() == total_bytes(conv_net_memory(part, sizes, sizeof(Real), 3)));
      nets.back()->tensors().initialize(7);
      nets.back()->tensors().round_parameters(compute);
    }
  }

  void forward(int slot, const MicroBatch<Real>& samples, bool training) {
    for (std::size_t i = 0; i < nets.size(); ++i) {
      if (i > 0) std::copy_n(nets[i - 1]->output(slot), exchanged(i), nets[i]->input(slot));
      const Real* const images = i == 0 ? samples.images.data() : nullptr;
      const auto dropout = samples.dropout(parts[i].first_dropout, parts[i].network.dropout.size());
      if (training)
        nets[i]->forward(slot, images, images_each, dropout, 0.25f);
      else
        nets[i]->infer(slot, images, images_each);
    }
  }

  NetworkGradients<Real> backward(int slot, const MicroBatch<Real>& samples) {
    NetworkGradients<Real> all;
    for (std::size_t i = nets.size(); i-- > 0;) {
      receive_gradient(i, slot);
      all.merge(gradients(
          i, [&](const auto& ready) { nets[i]->backward(slot, samples.labels.data(), 0.25f, ready); }));
    }
    return all;
  }
  void backward_input(int slot, const MicroBatch<Real>& samples) {
    for (std::size_t i = nets.size(); i-- > 0;) {
      receive_gradient(i, slot);
      nets[i]->backward_input(slot, slot, samples.labels.data(), 0.25f);
    }
  }
  NetworkGradients<Real> backward_weight(int slot) {
    NetworkGradients<Real> all;
    for (std::size_t i = 0; i < nets.size(); ++i)
      all.merge(gradients(i, [&](const auto& ready) { nets[i]->backward_weight(slot, slot, ready); }));
    return all;
  }

  /// From the stage behind.
  void receive_gradient(std::size_t stage, int slot) {
    if (stage + 1 == nets.size()) return;
    const auto from = nets[stage + 1]->input_gradient(slot), to = nets[stage]->output_gradient();
    REQUIRE(from.size() == to.size());
    for (std::size_t part = 0; part < to.size(); ++part)
      std::copy_n(from[part], exchanged(stage + 1), to[part]);
  }
  /// A stage's gradients after `compute`, which makes each ready once.
  template <typename F>
  NetworkGradients<Real> gradients(std::size_t stage, const F& compute) {
    std::vector<int> ready(nets[stage]->tensors().table().tensors.size());
    compute([&](std::size_t t) { ++ready[t]; });
    CHECK(std::all_of(ready.begin(), ready.end(), [](int times) { return times == 1; }));
    return network_gradients<Real>(nets[stage]->tensors());
  }

  /// Elements between a stage and the one before.
  std::size_t exchanged(std::size_t stage) const {
    return images_each * nets[stage]->network().images().elements();
  }

  std::vector<NetworkStage> parts;
  std::vector<std::unique_ptr<ConvNet<Real>>> nets;
};

template <typename Real>
void check_divided(const ImageNetwork& network, const std::vector<int>& begins, bool in_halves) {
  auto compute = test_compute<Real>();
  ConvNet<Real> whole(network, images_each, compute);
  whole.tensors().initialize(7);
  whole.tensors().round_parameters(compute);
  DividedNetwork<Real> divided(network, begins, in_halves, compute);
  const MicroBatch<Real> samples[] = {{network, 1}, {network, 2}};
  double losses[micro_batches] = {};
  for (int slot = 0; slot < micro_batches; ++slot) divided.forward(slot, samples[slot], true);
  for (int slot = 0; in_halves && slot < micro_batches; ++slot) {
    divided.backward_input(slot, samples[slot]);
    losses[slot] = compute.loss();
  }
  for (int slot = 0; slot < micro_batches; ++slot) {
    const MicroBatch<Real>& of = samples[slot];
    const auto found = in_halves ? divided.backward_weight(slot) : divided.backward(slot, of);
    const double loss = in_halves ? losses[slot] : compute.loss();
    const auto dropout = of.dropout(0, network.dropout.size());
    CHECK(whole.loss_and_gradients(of.images.data(), of.labels.data(), images_each, dropout, 0.25f).loss ==
          loss);
    CHECK(network_gradients<Real>(whole.tensors()) == found);
    divided.forward(slot, of, false);
    const auto expected = whole.loss(of.images.data(), of.labels.data(), images_each);
    const auto inferred = divided.nets.back()->output_loss(slot, of.labels.data(), images_each);
    CHECK(inferred.loss == expected.loss);
    CHECK(inferred.right == expected.right);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("stages of a network have the bits of the whole one", "[networks][pipeline]", float,
                   bfloat16) {
  for (const bool in_halves : {false, true}) {
    const auto check = [in_halves](const ImageNetwork& network, const std::vector<int>& begins) {
      check_divided<TestType>(network, begins, in_halves);
    };
    check(resnet_cifar(2, 10, {8, 8, 3}), {0});
    check(resnet_cifar(2, 10, {8, 8, 3}), {0, 3});          // before a block that keeps the size
    check(resnet_cifar(2, 10, {8, 8, 3}), {0, 1, 4, 5});    // and one that halves it
    check(resnet50(3, {32, 32, 3}), {0, 1, 2, 6, 17});      // behind pooling; a projection
    check(mobilenet_v1(0.25, 7, {32, 32, 3}), {0, 1, 14});  // without skip connections
    check(mnist_cnn(), {0, 1, 2, 3});                       // dropout in two stages
  }
}

TEST_CASE("a network is cut behind whole blocks only", "[networks][pipeline]") {
  CHECK(block_ends(resnet_cifar(3, 10)).size() == 11);  // the first convolution, 9 blocks, the linear layer
  CHECK(block_ends(resnet_cifar(18, 10)).size() == 56);
  CHECK(block_ends(resnet50(10)).size() == 18);
  CHECK(block_ends(mobilenet_v1(1, 10)).size() == 28);
  CHECK(block_ends(mnist_cnn()).size() == 4);
  const ImageNetwork network = resnet_cifar(3, 10);
  const std::vector<std::size_t> ends = block_ends(network);
  for (std::size_t cut = 0; cut + 1 < ends.size(); ++cut) {
    for (std::size_t i = ends[cut] + 1; i < network.layers.size(); ++i) {
      CHECK(network.layers[i].input >= ends[cut]);
      CHECK(network.layers[i].addend.value_or(ends[cut]) >= ends[cut]);
    }
  }
}

TEST_CASE("stages of a network divide its tensors, the statistics too", "[networks][pipeline]") {
  const ImageNetwork network = resnet50(3, {32, 32, 3});
  const std::vector<std::size_t> ends = block_ends(network);
  std::size_t trained = 0, statistics = 0, parameters = 0;
  double flops = 0;
  while (network.table.tensors[statistics].is_trained) ++statistics;
  for (const LayerRange& blocks :
       {LayerRange{0, 1}, LayerRange{1, 7}, LayerRange{7, 17}, LayerRange{17, 18}}) {
    const NetworkStage stage = take_blocks(network, ends, blocks);
    const TensorTable& table = stage.network.table;
    CHECK(stage.first_tensor == trained);
    CHECK(table.trained_size % 16 == 0);
    for (const Tensor& tensor : table.tensors) {
      const Tensor& of = network.table.tensors[tensor.is_trained ? trained++ : statistics++];
      CHECK(tensor.name == of.name);
      CHECK(tensor.number == of.number);
      CHECK(tensor.is_trained == (tensor.offset < table.trained_size));
    }
    CHECK((blocks.first == 17 || stage.first_statistic + table.tensors.size() > statistics));
    parameters += table.parameter_count;
    const std::size_t first = blocks.first == 0 ? 0 : ends[static_cast<std::size_t>(blocks.first) - 1] + 1;
    flops += network.flops_per_image(first, ends[static_cast<std::size_t>(blocks.last) - 1] + 1);
  }
  CHECK(statistics == network.table.tensors.size());
  CHECK(parameters == network.table.parameter_count);
  CHECK(flops == Approx(network.flops_per_image()));
}
