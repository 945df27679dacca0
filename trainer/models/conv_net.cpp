// SPDX-License-Identifier: Apache-2.0
#include "models/conv_net.hpp"

#include <type_traits>

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
ConvNet<Real>::ConvNet(ImageNetwork network, int max_batch, compute::Compute<Real>& compute,
                       std::size_t extra)
    : network_(std::move(network)),
      plan_(network_),
      tensors_(network_.table, extra, std::is_same_v<Real, bfloat16>, compute.memory(),
               &compute.parameter_memory(),
               compute.rounded_only() && network_.table.trained_size == network_.table.arena_size),
      max_batch_(max_batch),
      compute_(compute),
      images_(image_operations(compute)),
      outputs_(network_.layers.size()),
      buffers_(plan_.buffers.size()),
      places_(network_.layers.size()),
      means_(network_.layers.size()),
      rstds_(network_.layers.size()) {
  const auto images = static_cast<std::size_t>(max_batch);
  Layout<Real> layout;
  for (std::size_t i = 1; i < outputs_.size(); ++i)
    layout.reserve(&outputs_[i], images * network_.layers[i].out.elements());
  for (std::size_t i = 0; i < buffers_.size(); ++i) layout.reserve(&buffers_[i], images * plan_.buffers[i]);
  activations_ = layout.allocate(compute_.memory());
  Layout<std::uint8_t> places;
  for (std::size_t i = 1; i < places_.size(); ++i) {
    if (network_.layers[i].kind == LayerKind::max_pool)
      places.reserve(&places_[i], images * network_.layers[i].out.elements());
  }
  places_memory_ = places.allocate(compute_.memory());
  Layout<Sum> statistics;
  for (std::size_t i = 1; i < means_.size(); ++i) {
    if (network_.layers[i].kind != LayerKind::batch_norm) continue;
    for (auto* const each : {&means_, &rstds_})
      statistics.reserve(&(*each)[i], static_cast<std::size_t>(network_.layers[i].out.channels));
  }
  statistics_ = statistics.allocate(compute_.memory());
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::loss(const Real* images, const compute::Token* labels,
                                                   int batch) {
  dropout_.clear();
  forward(images, batch, false, Sum(0));
  Result result;
  result.right = count_correct(labels);
  images_.compute_cross_entropy(outputs_.back(), labels, batch_, network_.classes(), Sum(0));
  result.loss = compute_.loss();
  return result;
}

template <typename Real>
void ConvNet<Real>::gradients(const Real* images, const compute::Token* labels, int batch,
                              const Dropout& dropout, Sum gradient_scale, const Ready& ready) {
  dropout_ = dropout;
  forward(images, batch, true, gradient_scale);
  backward(labels, gradient_scale, ready);
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::loss_and_gradients(const Real* images,
                                                                 const compute::Token* labels, int batch,
                                                                 const Dropout& dropout, Sum gradient_scale,
                                                                 const Ready& ready) {
  dropout_ = dropout;
  forward(images, batch, true, gradient_scale);
  Result result;
  result.right = count_correct(labels);
  backward(labels, gradient_scale, ready);
  result.loss = compute_.loss();
  return result;
}

template <typename Real>
std::int64_t ConvNet<Real>::count_correct(const compute::Token* labels) {
  return images_.count_correct(outputs_.back(), labels, batch_, network_.classes());
}

template <typename Real>
void ConvNet<Real>::forward(const Real* images, int batch, bool training, Sum gradient_scale) {
  batch_ = batch;
  outputs_[0] = const_cast<Real*>(images);
  for (std::size_t number = 1; number < network_.layers.size(); ++number)
    forward(number, training, gradient_scale);
}

template <typename Real>
void ConvNet<Real>::forward(std::size_t number, bool training, Sum gradient_scale) {
  const Layer& layer = network_.layers[number];
  const ImageSize& in = network_.layers[layer.input].out;
  Real* out = outputs_[number];
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
      images_.relu(batch_, in.pixels(), in.channels, input(layer), dropout_of(layer), out);
      break;
    case LayerKind::max_pool:
      images_.max_pool(network_.pool(layer, batch_), input(layer), out, places_[number]);
      break;
    case LayerKind::mean_pool:
      images_.mean_pool(batch_, in.pixels(), in.channels, input(layer), out);
      break;
    case LayerKind::shortcut:
      images_.shortcut(batch_, in.height, in.width, in.channels, layer.out.channels, input(layer), out);
      break;
    case LayerKind::flatten:
      images_.flatten(batch_, in.pixels(), in.channels, input(layer), false, out);
      break;
  }
}

template <typename Real>
void ConvNet<Real>::convolve(const Layer& layer, Real* out) {
  images_.convolve(
      network_.convolution(layer, batch_), input(layer), tensors_.template weight<Real>(layer.weight),
      layer.bias == Layer::no_tensor ? nullptr : tensors_.template weight<Real>(layer.bias), out);
}

template <typename Real>
compute::BatchNorm<Real> ConvNet<Real>::batch_norm(std::size_t number) {
  const Layer& layer = network_.layers[number];
  return {.batch = batch_,
          .pixels = static_cast<int>(layer.out.pixels()),
          .channels = layer.out.channels,
          .x = input(layer),
          .gain = tensors_.parameter(layer.weight),
          .bias = tensors_.parameter(layer.bias),
          .addend = layer.addend == 0 ? nullptr : outputs_[layer.addend],
          .relu = layer.relu,
          .out = outputs_[number],
          .mean = means_[number],
          .rstd = rstds_[number],
          .all_reduce = all_reduce_ ? &all_reduce_ : nullptr};
}

template <typename Real>
void ConvNet<Real>::normalize(std::size_t number, bool training, Sum gradient_scale) {
  const Layer& layer = network_.layers[number];
  const auto norm = batch_norm(number);
  if (!training)
    return images_.normalize_by(norm, tensors_.parameter(layer.mean), tensors_.parameter(layer.variance));
  images_.normalize(norm, tensors_.gradient(layer.mean), tensors_.gradient(layer.variance),
                    static_cast<double>(gradient_scale) * batch_);
}

template <typename Real>
void ConvNet<Real>::backward(const compute::Token* labels, Sum gradient_scale, const Ready& ready) {
  images_.compute_cross_entropy(outputs_.back(), labels, batch_, network_.classes(), gradient_scale);
  for (std::size_t tensor = network_.table.tensors.size(); tensor-- > 0;) {
    if (!network_.table.tensors[tensor].is_trained) ready(tensor);
  }
  for (std::size_t number = network_.layers.size() - 1; number > 0; --number) backward(number, ready);
}

template <typename Real>
void ConvNet<Real>::backward(std::size_t number, const Ready& ready) {
  const Layer& layer = network_.layers[number];
  const GradientPlan::LayerBuffers& use = plan_.layers[number];
  const ImageSize& in = network_.layers[layer.input].out;
  Real *d_out = use.d_out ? buffer(use.d_out) : outputs_.back(), *d_also = buffer(use.d_also),
       *d_input = buffer(use.d_input);
  if (layer.kind == LayerKind::batch_norm) return backward_norm(number, d_out, d_also, d_input, ready);
  if (d_also) images_.add(d_also, d_out, static_cast<std::size_t>(batch_) * layer.out.elements());
  switch (layer.kind) {
    case LayerKind::convolution:
    case LayerKind::linear:
      backward_convolution(layer, d_out, d_input, ready);
      break;
    case LayerKind::max_pool:
      images_.max_pool_backward(network_.pool(layer, batch_), places_[number], d_out, d_input);
      break;
    case LayerKind::relu:
      images_.relu_backward(batch_, in.pixels(), in.channels, outputs_[number], dropout_of(layer), d_out,
                            d_input);
      break;
    case LayerKind::flatten:
      images_.flatten(batch_, in.pixels(), in.channels, d_out, true, d_input);
      break;
    case LayerKind::mean_pool:
      images_.mean_pool_backward(batch_, in.pixels(), in.channels, d_out, d_input);
      break;
    case LayerKind::shortcut:
      images_.shortcut_backward(batch_, in.height, in.width, in.channels, layer.out.channels, d_out, d_input);
      break;
    default:
      break;
  }
}

template <typename Real>
void ConvNet<Real>::backward_convolution(const Layer& layer, const Real* d_out, Real* d_input,
                                         const Ready& ready) {
  const auto shape = network_.convolution(layer, batch_);
  const bool bias = layer.bias != Layer::no_tensor;
  images_.convolve_backward_weight(shape, input(layer), d_out, tensors_.gradient(layer.weight),
                                   bias ? tensors_.gradient(layer.bias) : nullptr);
  if (bias) ready(layer.bias);
  ready(layer.weight);
  if (d_input)
    images_.convolve_backward_images(shape, d_out, tensors_.template weight<Real>(layer.weight), d_input);
}

template <typename Real>
void ConvNet<Real>::backward_norm(std::size_t number, Real* d_out, const Real* d_also, Real* d_input,
                                  const Ready& ready) {
  const Layer& layer = network_.layers[number];
  images_.normalize_backward(batch_norm(number), d_out, d_also, d_input, tensors_.gradient(layer.weight),
                             tensors_.gradient(layer.bias));
  ready(layer.bias);
  ready(layer.weight);
}

template class ConvNet<float>;
template class ConvNet<double>;
template class ConvNet<bfloat16>;

}  // namespace muster::models
