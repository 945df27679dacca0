// SPDX-License-Identifier: Apache-2.0
#include "models/conv_net.hpp"

#include <type_traits>
#include <utility>
#include <vector>

#include "muster/error.hpp"

namespace muster::models {
namespace {

template <typename Real>
compute::ImageCompute<Real>& image_operations(compute::Compute<Real>& compute) {
  if (compute::ImageCompute<Real>* images = compute.images()) return *images;
  throw Error(ErrorCode::usage, "the device has no operations on images: pass --device=cpu");
}

}  // namespace

template <typename Real>
ConvNet<Real>::ConvNet(NetworkStage stage, const ConvNetSizes& sizes, compute::Compute<Real>& compute,
                       std::size_t extra)
    : stage_(std::move(stage)),
      network_(stage_.network),
      tensors_(network_.table, extra, std::is_same_v<Real, bfloat16>, compute.memory(),
               &compute.parameter_memory(),
               compute.rounded_only() && network_.table.trained_size == network_.table.arena_size),
      max_batch_(sizes.max_batch),
      compute_(compute),
      images_(image_operations(compute)),
      memory_(stage_, sizes, compute.memory()),
      slot_(&memory_.slot(0)) {}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::loss(const Real* images, const compute::Token* labels,
                                                   int batch) {
  infer(0, images, batch);
  return output_loss(0, labels, batch);
}

template <typename Real>
void ConvNet<Real>::gradients(const Real* images, const compute::Token* labels, int batch,
                              const Dropout& dropout, Sum gradient_scale, const Ready& ready) {
  forward(0, images, batch, dropout, gradient_scale);
  backward(0, labels, gradient_scale, ready);
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::loss_and_gradients(const Real* images,
                                                                 const compute::Token* labels, int batch,
                                                                 const Dropout& dropout, Sum gradient_scale,
                                                                 const Ready& ready) {
  forward(0, images, batch, dropout, gradient_scale);
  Result result;
  result.right = count_correct(labels, batch);
  backward(0, labels, gradient_scale, ready);
  result.loss = compute_.loss();
  return result;
}

template <typename Real>
std::vector<Real*> ConvNet<Real>::output_gradient() {
  std::vector<Real*> parts;
  const GradientPlan::LayerBuffers& use = memory_.plan().layers.back();
  for (const auto& part : {use.d_out, use.d_also})
    if (part) parts.push_back(memory_.buffer(part, nullptr));
  return parts;
}

template <typename Real>
std::vector<Real*> ConvNet<Real>::input_gradient(int slot) {
  std::vector<Real*> parts;
  for (Real* const part : memory_.slot(slot).d_input)
    if (part) parts.push_back(part);
  return parts;
}

template <typename Real>
std::int64_t ConvNet<Real>::count_correct(const compute::Token* labels, int images) {
  return images_.count_correct(slot_->outputs.back(), labels, images, network_.classes());
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::output_loss(int slot, const compute::Token* labels,
                                                          int images) {
  slot_ = &memory_.slot(slot);
  Result result;
  result.right = count_correct(labels, images);
  images_.compute_cross_entropy(slot_->outputs.back(), labels, images, network_.classes(), Sum(0));
  result.loss = compute_.loss();
  return result;
}

template <typename Real>
void ConvNet<Real>::begin(int slot, const Real* images, int batch, const Dropout& dropout) {
  slot_ = &memory_.slot(slot);
  slot_->batch = batch;
  slot_->dropout = dropout;
  if (stage_.is_first) slot_->outputs.front() = const_cast<Real*>(images);
}

template <typename Real>
void ConvNet<Real>::forward(int slot, const Real* images, int batch, const Dropout& dropout,
                            Sum gradient_scale) {
  begin(slot, images, batch, dropout);
  for (std::size_t number = 1; number < network_.layers.size(); ++number)
    forward_layer(number, true, gradient_scale);
}

template <typename Real>
void ConvNet<Real>::infer(int slot, const Real* images, int batch) {
  begin(slot, images, batch, {});
  for (std::size_t number = 1; number < network_.layers.size(); ++number)
    forward_layer(number, false, Sum(0));
}

template <typename Real>
void ConvNet<Real>::forward_layer(std::size_t number, bool training, Sum gradient_scale) {
  const Layer& layer = network_.layers[number];
  const ImageSize& in = network_.layers[layer.input].out;
  Real* out = slot_->outputs[number];
  switch (layer.kind) {
    case LayerKind::images:
      break;
    case LayerKind::convolution:
    case LayerKind::linear:
      convolve(layer, out);
      break;
    case LayerKind::batch_norm:
      normalize(number, training, gradient_scale);
      break;
    case LayerKind::relu:
      images_.relu(batch(), in.pixels(), in.channels, input(layer), dropout_of(layer), out);
      break;
    case LayerKind::max_pool:
      images_.max_pool(network_.pool(layer, batch()), input(layer), out, slot_->places[number]);
      break;
    case LayerKind::mean_pool:
      images_.mean_pool(batch(), in.pixels(), in.channels, input(layer), out);
      break;
    case LayerKind::shortcut:
      images_.shortcut(batch(), in.height, in.width, in.channels, layer.out.channels, input(layer), out);
      break;
    case LayerKind::flatten:
      images_.flatten(batch(), in.pixels(), in.channels, input(layer), false, out);
      break;
  }
}

template <typename Real>
void ConvNet<Real>::convolve(const Layer& layer, Real* out) {
  images_.convolve(
      network_.convolution(layer, batch()), input(layer), tensors_.template weight<Real>(layer.weight),
      layer.bias == Layer::no_tensor ? nullptr : tensors_.template weight<Real>(layer.bias), out);
}

template <typename Real>
compute::BatchNorm<Real> ConvNet<Real>::batch_norm(std::size_t number) {
  const Layer& layer = network_.layers[number];
  return {.batch = batch(),
          .pixels = static_cast<int>(layer.out.pixels()),
          .channels = layer.out.channels,
          .x = input(layer),
          .gain = tensors_.parameter(layer.weight),
          .bias = tensors_.parameter(layer.bias),
          .addend = layer.addend ? slot_->outputs[*layer.addend] : nullptr,
          .relu = layer.relu,
          .out = slot_->outputs[number],
          .mean = slot_->means[number],
          .rstd = slot_->rstds[number],
          .all_reduce = all_reduce_ ? &all_reduce_ : nullptr};
}

template <typename Real>
void ConvNet<Real>::normalize(std::size_t number, bool training, Sum gradient_scale) {
  const Layer& layer = network_.layers[number];
  const auto norm = batch_norm(number);
  if (!training)
    return images_.normalize_by(norm, tensors_.parameter(layer.mean), tensors_.parameter(layer.variance));
  images_.normalize(norm, statistic(layer.mean), statistic(layer.variance),
                    static_cast<double>(gradient_scale) * batch());
}

template <typename Real>
typename ConvNet<Real>::Sum* ConvNet<Real>::statistic(std::size_t tensor) {
  const std::size_t offset = network_.table.tensors[tensor].offset - network_.table.trained_size;
  return slot_->statistics ? slot_->statistics + offset : tensors_.gradient(tensor);
}

// Other micro-batches may have gone forward since this one did.
template <typename Real>
void ConvNet<Real>::statistics_ready(const Ready& ready) {
  const TensorTable& table = network_.table;
  if (slot_->statistics) {
    compute_.copy(tensors_.gradients().data() + table.trained_size, slot_->statistics,
                  (table.arena_size - table.trained_size) * sizeof(Sum));
  }
  for (std::size_t tensor = table.tensors.size(); tensor-- > 0;)
    if (!table.tensors[tensor].is_trained) ready(tensor);
}

template <typename Real>
void ConvNet<Real>::backward(int slot, const compute::Token* labels, Sum gradient_scale, const Ready& ready) {
  slot_ = &memory_.slot(slot);
  kept_ = nullptr;
  backward_loss(labels, gradient_scale);
  statistics_ready(ready);
  for (std::size_t number = network_.layers.size() - 1; number > 0; --number) backward_layer(number, ready);
  keep_input_gradient();
}

template <typename Real>
void ConvNet<Real>::backward_input(int slot, int weight_slot, const compute::Token* labels,
                                   Sum gradient_scale) {
  slot_ = &memory_.slot(slot);
  kept_ = &memory_.weight_slot(weight_slot);
  backward_loss(labels, gradient_scale);
  for (std::size_t number = network_.layers.size() - 1; number > 0; --number)
    backward_layer(number, [](std::size_t) {});
  keep_input_gradient();
}

template <typename Real>
void ConvNet<Real>::backward_weight(int slot, int weight_slot, const Ready& ready) {
  slot_ = &memory_.slot(slot);
  kept_ = &memory_.weight_slot(weight_slot);
  statistics_ready(ready);
  for (std::size_t number = network_.layers.size() - 1; number > 0; --number) {
    const Layer& layer = network_.layers[number];
    if (layer.is_product()) weight_gradient(number, ready);
    if (layer.kind == LayerKind::batch_norm) take_norm_gradients(number, ready);
  }
}

template <typename Real>
void ConvNet<Real>::backward_loss(const compute::Token* labels, Sum gradient_scale) {
  if (!stage_.is_last()) return;
  images_.compute_cross_entropy(slot_->outputs.back(), labels, batch(), network_.classes(), gradient_scale);
}

// The next backward pass overwrites the gradient while this one may still be on its way.
template <typename Real>
void ConvNet<Real>::keep_input_gradient() {
  const GradientPlan::LayerBuffers& use = memory_.plan().layers.front();
  const std::size_t bytes = elements(network_.layers.front()) * sizeof(Real);
  if (use.d_out) compute_.copy(slot_->d_input[0], memory_.buffer(use.d_out, kept_), bytes);
  if (use.d_also) compute_.copy(slot_->d_input[1], memory_.buffer(use.d_also, kept_), bytes);
}

template <typename Real>
void ConvNet<Real>::backward_layer(std::size_t number, const Ready& ready) {
  const Layer& layer = network_.layers[number];
  if (layer.kind == LayerKind::batch_norm) return backward_norm(number, ready);
  const GradientPlan::LayerBuffers& use = memory_.plan().layers[number];
  const ImageSize& in = network_.layers[layer.input].out;
  Real *d_out = output_gradient_of(number), *d_input = memory_.buffer(use.d_input, kept_);
  if (use.d_also) images_.add(memory_.buffer(use.d_also, kept_), d_out, elements(layer));
  switch (layer.kind) {
    case LayerKind::convolution:
    case LayerKind::linear:
      backward_product(number, ready);
      break;
    case LayerKind::max_pool:
      images_.max_pool_backward(network_.pool(layer, batch()), slot_->places[number], d_out, d_input);
      break;
    case LayerKind::relu:
      images_.relu_backward(batch(), in.pixels(), in.channels, slot_->outputs[number], dropout_of(layer),
                            d_out, d_input);
      break;
    case LayerKind::flatten:
      images_.flatten(batch(), in.pixels(), in.channels, d_out, true, d_input);
      break;
    case LayerKind::mean_pool:
      images_.mean_pool_backward(batch(), in.pixels(), in.channels, d_out, d_input);
      break;
    case LayerKind::shortcut:
      images_.shortcut_backward(batch(), in.height, in.width, in.channels, layer.out.channels, d_out,
                                d_input);
      break;
    default:
      break;
  }
}

template <typename Real>
void ConvNet<Real>::backward_product(std::size_t number, const Ready& ready) {
  const Layer& layer = network_.layers[number];
  if (!kept_) weight_gradient(number, ready);
  Real* const d_input = memory_.buffer(memory_.plan().layers[number].d_input, kept_);
  if (d_input)
    images_.convolve_backward_images(network_.convolution(layer, batch()), output_gradient_of(number),
                                     tensors_.template weight<Real>(layer.weight), d_input);
}

template <typename Real>
void ConvNet<Real>::weight_gradient(std::size_t number, const Ready& ready) {
  const Layer& layer = network_.layers[number];
  const bool bias = layer.bias != Layer::no_tensor;
  images_.convolve_backward_weight(network_.convolution(layer, batch()), input(layer),
                                   output_gradient_of(number), tensors_.gradient(layer.weight),
                                   bias ? tensors_.gradient(layer.bias) : nullptr);
  if (bias) ready(layer.bias);
  ready(layer.weight);
}

template <typename Real>
void ConvNet<Real>::backward_norm(std::size_t number, const Ready& ready) {
  const Layer& layer = network_.layers[number];
  const GradientPlan::LayerBuffers& use = memory_.plan().layers[number];
  const auto norm = batch_norm(number);
  Real *const d_out = output_gradient_of(number), *const d_input = memory_.buffer(use.d_input, kept_);
  const Real* const d_also = memory_.buffer(use.d_also, kept_);
  if (kept_) {
    const auto& [gain, bias] = kept_->norms[number];
    return images_.normalize_backward(norm, d_out, d_also, d_input, gain, bias);
  }
  images_.normalize_backward(norm, d_out, d_also, d_input, tensors_.gradient(layer.weight),
                             tensors_.gradient(layer.bias));
  ready(layer.bias);
  ready(layer.weight);
}

// The gradient of the input needs their sums, so the first half has computed them.
template <typename Real>
void ConvNet<Real>::take_norm_gradients(std::size_t number, const Ready& ready) {
  const Layer& layer = network_.layers[number];
  const auto& [gain, bias] = kept_->norms[number];
  const std::size_t bytes = static_cast<std::size_t>(layer.out.channels) * sizeof(Sum);
  compute_.copy(tensors_.gradient(layer.weight), gain, bytes);
  compute_.copy(tensors_.gradient(layer.bias), bias, bytes);
  ready(layer.bias);
  ready(layer.weight);
}

template class ConvNet<float>;
template class ConvNet<double>;
template class ConvNet<bfloat16>;

}  // namespace muster::models
