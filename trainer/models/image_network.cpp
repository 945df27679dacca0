// SPDX-License-Identifier: Apache-2.0
#include "models/image_network.hpp"

#include <cmath>

namespace muster::models {

compute::ConvolutionShape ImageNetwork::convolution(const Layer& layer, int batch) const {
  const ImageSize& in = layers[layer.input].out;
  return {batch,        in.height,    in.width,      in.channels, layer.out.channels,
          layer.window, layer.stride, layer.padding, layer.groups};
}

compute::PoolShape ImageNetwork::pool(const Layer& layer, int batch) const {
  const ImageSize& in = layers[layer.input].out;
  return {batch, in.height, in.width, in.channels, layer.window, layer.stride, layer.padding};
}

double ImageNetwork::flops_per_image() const { return flops_per_image(0, layers.size()); }

double ImageNetwork::flops_per_image(std::size_t first, std::size_t last) const {
  double flops = 0;
  for (std::size_t number = first; number < last; ++number) {
    const Layer& layer = layers[number];
    if (layer.kind != LayerKind::convolution && layer.kind != LayerKind::linear) continue;
    const double multiplications =
        static_cast<double>(layer.out.pixels()) * static_cast<double>(table.tensors[layer.weight].count);
    flops += (layer.input == 0 ? 4 : 6) * multiplications;
  }
  return flops;
}

NetworkBuilder::NetworkBuilder(const ImageSize& images) { add({.out = images}); }

std::size_t NetworkBuilder::add(Layer layer) {
  network_.layers.push_back(layer);
  return network_.layers.size() - 1;
}

std::size_t NetworkBuilder::add_tensor(std::string name, std::vector<std::int64_t> shape, bool decay,
                                       double spread, double value, Distribution distribution) {
  tensors_.add(std::move(name), std::move(shape), decay, spread, value, distribution);
  return tensor_count_++;
}

Layer NetworkBuilder::convolution_layer(std::size_t input, int out, const Window& window) const {
  const ImageSize in = size(input);
  const auto after = [&](int pixels) {
    return (pixels + 2 * window.padding - window.size) / window.stride + 1;
  };
  Layer layer{.kind = LayerKind::convolution, .input = input};
  layer.window = window.size;
  layer.stride = window.stride;
  layer.padding = window.padding;
  layer.groups = window.groups;
  layer.out = {after(in.height), after(in.width), out};
  return layer;
}

std::size_t NetworkBuilder::convolution(std::size_t input, const std::string& name, int out,
                                        const Window& window) {
  Layer layer = convolution_layer(input, out, window);
  const int in = size(input).channels / window.groups, fan_in = in * window.size * window.size;
  layer.weight =
      add_tensor(name + ".weight", {out, in, window.size, window.size}, true, std::sqrt(2.0 / fan_in), 0);
  return add(layer);
}

std::size_t NetworkBuilder::convolution_with_bias(std::size_t input, const std::string& name, int out,
                                                  const Window& window) {
  Layer layer = convolution_layer(input, out, window);
  const int in = size(input).channels / window.groups;
  const double bound = 1 / std::sqrt(in * window.size * window.size);
  layer.weight = add_tensor(name + ".weight", {out, in, window.size, window.size}, true, bound, 0,
                            Distribution::uniform);
  layer.bias = add_tensor(name + ".bias", {out}, false, bound, 0, Distribution::uniform);
  return add(layer);
}

std::size_t NetworkBuilder::relu(std::size_t input, bool drops) {
  Layer layer{.kind = LayerKind::relu, .input = input};
  layer.out = size(input);
  if (drops) {
    layer.dropout = static_cast<int>(network_.dropout.size());
    network_.dropout.push_back(layer.out.channels);
  }
  return add(layer);
}

std::size_t NetworkBuilder::flatten(std::size_t input) {
  return add(
      {.kind = LayerKind::flatten, .input = input, .out = {1, 1, static_cast<int>(size(input).elements())}});
}

std::size_t NetworkBuilder::batch_norm(std::size_t input, const std::string& name, bool relu,
                                       std::optional<std::size_t> addend) {
  Layer layer{.kind = LayerKind::batch_norm, .input = input, .addend = addend, .relu = relu};
  layer.out = size(input);
  layer.weight = add_tensor(name + ".weight", {layer.out.channels}, false, 0, 1);
  layer.bias = add_tensor(name + ".bias", {layer.out.channels}, false, 0, 0);
  statistics_.push_back({network_.layers.size(), name});
  return add(layer);
}

std::size_t NetworkBuilder::max_pool(std::size_t input, const Window& window) {
  Layer layer = convolution_layer(input, size(input).channels, window);
  layer.kind = LayerKind::max_pool;
  return add(layer);
}

std::size_t NetworkBuilder::mean_pool(std::size_t input) {
  return add({.kind = LayerKind::mean_pool, .input = input, .out = {1, 1, size(input).channels}});
}

std::size_t NetworkBuilder::shortcut(std::size_t input, int out) {
  const ImageSize in = size(input);
  return add(
      {.kind = LayerKind::shortcut, .input = input, .out = {(in.height + 1) / 2, (in.width + 1) / 2, out}});
}

std::size_t NetworkBuilder::linear(std::size_t input, const std::string& name, int out) {
  const int in = size(input).channels;
  const double bound = 1 / std::sqrt(in);
  Layer layer{.kind = LayerKind::linear, .input = input, .out = {1, 1, out}};
  layer.weight = add_tensor(name + ".weight", {out, in}, true, bound, 0, Distribution::uniform);
  layer.bias = add_tensor(name + ".bias", {out}, false, bound, 0, Distribution::uniform);
  return add(layer);
}

ImageNetwork NetworkBuilder::take(std::string text) {
  for (const Statistic& statistic : statistics_) {
    Layer& layer = network_.layers[statistic.layer];
    const auto channels = static_cast<std::size_t>(layer.out.channels);
    tensors_.add_statistic(statistic.name + ".running_mean", channels, 0);
    tensors_.add_statistic(statistic.name + ".running_var", channels, 1);
    layer.mean = tensor_count_++;
    layer.variance = tensor_count_++;
  }
  network_.text = std::move(text);
  network_.table = tensors_.take();
  return std::move(network_);
}

}  // namespace muster::models
