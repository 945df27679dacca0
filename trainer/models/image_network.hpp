// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compute/image_compute.hpp"
#include "models/model_tensors.hpp"
#include "models/tensor_table.hpp"

namespace muster::models {

struct ImageSize {
  int height = 0, width = 0, channels = 0;
  std::size_t pixels() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
  std::size_t elements() const { return pixels() * static_cast<std::size_t>(channels); }
};

enum class LayerKind {
  images,
  convolution,
  batch_norm,
  relu,
  max_pool,
  mean_pool,
  shortcut,
  flatten,
  linear
};

/// One operation of a network, on the output of an earlier layer.
struct Layer {
  static constexpr std::size_t no_tensor = static_cast<std::size_t>(-1);

  LayerKind kind = LayerKind::images;
  std::size_t input = 0;                ///< number of the layer whose output this one takes
  std::optional<std::size_t> addend{};  ///< batch_norm: number of the layer whose output is added before ReLU
  bool relu = false;                    ///< batch_norm: ReLU at the end
  int dropout = -1;                     ///< relu: number of the factors in Dropout; -1: none
  int window = 1, stride = 1, padding = 0, groups = 1;
  ImageSize out{};
  /// Numbers in the table of tensors. For batch_norm `weight` is the gain.
  std::size_t weight = no_tensor, bias = no_tensor, mean = no_tensor, variance = no_tensor;

  /// Its weights multiply its input.
  bool is_product() const { return kind == LayerKind::convolution || kind == LayerKind::linear; }
};

/// A network that classifies images: layers in the order of the forward pass, the first of kind `images`, the
/// last one gives the logits. At most two later layers take a layer's output.
struct ImageNetwork {
  std::string text;  ///< for the checkpoint; equal texts mean equal tensors
  std::vector<Layer> layers;
  TensorTable table;
  std::vector<int> dropout;  ///< channels of each layer with dropout, at most 64

  const ImageSize& images() const { return layers.front().out; }
  int classes() const { return layers.back().out.channels; }
  compute::ConvolutionShape convolution(const Layer& layer, int batch) const;
  compute::PoolShape pool(const Layer& layer, int batch) const;
  /// Floating-point operations of one training step per image: two per multiply-add of convolutions and
  /// linear layers, and twice as many backward, except for the gradient of the images.
  double flops_per_image() const;
  /// Those of layers [first, last) alone.
  double flops_per_image(std::size_t first, std::size_t last) const;
};

/// Window, stride and padding of a convolution or pooling.
struct Window {
  int size = 1, stride = 1, padding = 0, groups = 1;
};

/// Adds layer by layer; each function returns the new layer's number. Layer 0 is the images.
class NetworkBuilder {
 public:
  explicit NetworkBuilder(const ImageSize& images);

  /// Initial weights are normal with variance 2 / fan-in (He et al., arXiv 1502.01852).
  std::size_t convolution(std::size_t input, const std::string& name, int out, const Window& window);
  /// Initial values are uniform within 1 / sqrt(fan-in), as in PyTorch.
  std::size_t convolution_with_bias(std::size_t input, const std::string& name, int out,
                                    const Window& window);
  /// ReLU, before it a dropout of channels if `drops`.
  std::size_t relu(std::size_t input, bool drops);
  /// Gain 1, bias 0, running mean 0 and variance 1.
  std::size_t batch_norm(std::size_t input, const std::string& name, bool relu,
                         std::optional<std::size_t> addend = {});
  std::size_t max_pool(std::size_t input, const Window& window);
  std::size_t mean_pool(std::size_t input);
  /// Half of the pixels in each direction, with zero channels up to `out`.
  std::size_t shortcut(std::size_t input, int out);
  /// All values of an image as channels of one pixel, in PyTorch's order.
  std::size_t flatten(std::size_t input);
  /// Of an output with one pixel. Initial values are uniform within 1 / sqrt(fan-in), as in PyTorch.
  std::size_t linear(std::size_t input, const std::string& name, int out);
  const ImageSize& size(std::size_t layer) const { return network_.layers[layer].out; }
  ImageNetwork take(std::string text);

 private:
  std::size_t add(Layer layer);
  Layer convolution_layer(std::size_t input, int out, const Window& window) const;
  std::size_t add_tensor(std::string name, std::vector<std::int64_t> shape, bool decay, double spread,
                         double value, Distribution distribution = Distribution::normal);

  struct Statistic {
    std::size_t layer;
    std::string name;
  };
  ImageNetwork network_;
  TableBuilder tensors_;
  std::size_t tensor_count_ = 0;
  std::vector<Statistic> statistics_;
};

}  // namespace muster::models
