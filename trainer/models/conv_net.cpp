// SPDX-License-Identifier: Apache-2.0
#include "models/conv_net.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "models/linear.hpp"
#include "muster/error.hpp"

namespace muster::models {
namespace {

constexpr double epsilon = 1e-5;

template <typename Real>
compute::ImageCompute<Real>& image_operations(compute::Compute<Real>& compute) {
  if (compute::ImageCompute<Real>* images = compute.images()) return *images;
  throw Error(ErrorCode::usage, "the GPU trains GPTs only: pass --device=cpu for image models");
}

}  // namespace

template <typename Real>
ConvNet<Real>::ConvNet(ImageNetwork network, int max_batch, compute::Compute<Real>& compute,
                       std::size_t extra)
    : network_(std::move(network)),
      plan_(network_),
      tensors_(network_.table, extra, std::is_same_v<Real, bfloat16>),
      max_batch_(max_batch),
      compute_(compute),
      images_(image_operations(compute)),
      outputs_(network_.layers.size()),
      buffers_(plan_.buffers.size()),
      places_(network_.layers.size()),
      normalized_(network_.layers.size()) {
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
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::loss(const Real* images, const compute::Token* labels,
                                                   int batch) {
  dropout_.clear();
  forward(images, batch, false, Sum(0));
  return classify(labels, Sum(0));
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::loss_and_gradients(const Real* images,
                                                                 const compute::Token* labels, int batch,
                                                                 const Dropout& dropout, Sum gradient_scale,
                                                                 const Ready& ready) {
  dropout_ = dropout;
  forward(images, batch, true, gradient_scale);
  const Result result = classify(labels, gradient_scale);
  backward(ready);
  return result;
}

template <typename Real>
typename ConvNet<Real>::Result ConvNet<Real>::classify(const compute::Token* labels, Sum gradient_scale) {
  Result result;
  result.right = images_.count_correct(outputs_.back(), labels, batch_, network_.classes());
  result.loss = compute_.cross_entropy(outputs_.back(), labels, batch_, network_.classes(), gradient_scale);
  return result;
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
      images_.convolve(
          network_.convolution(layer, batch_), input(layer), tensors_.template weight<Real>(layer.weight),
          layer.bias == Layer::no_tensor ? nullptr : tensors_.template weight<Real>(layer.bias), out);
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
    case LayerKind::linear:
      linear(layer, out);
      break;
  }
}

template <typename Real>
void ConvNet<Real>::linear(const Layer& layer, Real* out) {
  compute_.matmul(
      {batch_, layer.out.channels, network_.layers[layer.input].out.channels, false, true, true, false},
      input(layer), tensors_.template weight<Real>(layer.weight), tensors_.template weight<Real>(layer.bias),
      out);
}

template <typename Real>
void ConvNet<Real>::batch_statistics(std::size_t number, Sum gradient_scale) {
  const Layer& layer = network_.layers[number];
  Normalized& saved = normalized_[number];
  const auto channels = static_cast<std::size_t>(layer.out.channels);
  sums_.resize(1 + 2 * channels);
  double *mean = &sums_[1], *squares = mean + channels;
  images_.batch_moments(rows(layer), layer.out.channels, input(layer), mean, squares);
  saved.count = static_cast<double>(rows(layer));
  if (all_reduce_) {
    sums_[0] = saved.count;
    for (std::size_t i = 0; i < channels; ++i) {
      squares[i] += saved.count * mean[i] * mean[i];
      mean[i] *= saved.count;
    }
    all_reduce_(sums_);
    saved.count = sums_[0];
    for (std::size_t i = 0; i < channels; ++i) {
      mean[i] /= saved.count;
      squares[i] = std::max(squares[i] - saved.count * mean[i] * mean[i], 0.0);
    }
  }
  Sum *batch_mean = tensors_.gradient(layer.mean), *batch_variance = tensors_.gradient(layer.variance);
  const double share = static_cast<double>(gradient_scale) * batch_;
  for (std::size_t i = 0; i < channels; ++i) {
    saved.mean[i] = Sum(mean[i]);
    saved.rstd[i] = 1 / std::sqrt(squares[i] / saved.count + epsilon);
    batch_mean[i] = Sum(share * mean[i]);
    batch_variance[i] = Sum(share * squares[i] / std::max(saved.count - 1, 1.0));
  }
}

template <typename Real>
void ConvNet<Real>::running_statistics(std::size_t number) {
  const Layer& layer = network_.layers[number];
  Normalized& saved = normalized_[number];
  const Sum *mean = tensors_.parameter(layer.mean), *variance = tensors_.parameter(layer.variance);
  for (std::size_t i = 0; i < saved.mean.size(); ++i) {
    saved.mean[i] = mean[i];
    saved.rstd[i] = 1 / std::sqrt(static_cast<double>(variance[i]) + epsilon);
  }
}

template <typename Real>
void ConvNet<Real>::normalize(std::size_t number, bool training, Sum gradient_scale) {
  const Layer& layer = network_.layers[number];
  Normalized& saved = normalized_[number];
  const auto channels = static_cast<std::size_t>(layer.out.channels);
  saved.mean.resize(channels);
  saved.rstd.resize(channels);
  training ? batch_statistics(number, gradient_scale) : running_statistics(number);
  const Sum *gain = tensors_.parameter(layer.weight), *bias = tensors_.parameter(layer.bias);
  scale_.resize(channels);
  shift_.resize(channels);
  for (std::size_t i = 0; i < channels; ++i) {
    const double scale = static_cast<double>(gain[i]) * saved.rstd[i];
    scale_[i] = Sum(scale);
    shift_[i] = Sum(static_cast<double>(bias[i]) - static_cast<double>(saved.mean[i]) * scale);
  }
  images_.scale_and_shift(rows(layer), layer.out.channels, input(layer), scale_.data(), shift_.data(),
                          layer.addend == 0 ? nullptr : outputs_[layer.addend], layer.relu, outputs_[number]);
}

template <typename Real>
void ConvNet<Real>::backward(const Ready& ready) {
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
    case LayerKind::convolution: {
      const auto shape = network_.convolution(layer, batch_);
      const bool bias = layer.bias != Layer::no_tensor;
      images_.convolve_backward_weight(shape, input(layer), d_out, tensors_.gradient(layer.weight),
                                       bias ? tensors_.gradient(layer.bias) : nullptr);
      if (bias) ready(layer.bias);
      ready(layer.weight);
      if (d_input)
        images_.convolve_backward_images(shape, d_out, tensors_.template weight<Real>(layer.weight), d_input);
      break;
    }
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
    case LayerKind::linear:
      linear_backward(compute_, input(layer), tensors_.template weight<Real>(layer.weight), d_out, d_input,
                      tensors_.gradient(layer.weight), tensors_.gradient(layer.bias), batch_, in.channels,
                      layer.out.channels);
      ready(layer.bias);
      ready(layer.weight);
      break;
    default:
      break;
  }
}

// With h = (x - mean) rstd and N rows: d_x = gain rstd (g - sum g / N - h sum(g h) / N).
template <typename Real>
void ConvNet<Real>::backward_norm(std::size_t number, Real* d_out, const Real* d_also, Real* d_input,
                                  const Ready& ready) {
  const Layer& layer = network_.layers[number];
  const Normalized& saved = normalized_[number];
  const auto channels = static_cast<std::size_t>(layer.out.channels);
  sums_.resize(1 + 2 * channels);
  double *sum = &sums_[1], *dot = sum + channels;
  images_.batch_gradient_sums(rows(layer), layer.out.channels, input(layer), saved.mean.data(),
                              layer.relu ? outputs_[number] : nullptr, d_out, d_also, sum, dot);
  Sum *d_gain = tensors_.gradient(layer.weight), *d_bias = tensors_.gradient(layer.bias);
  for (std::size_t i = 0; i < channels; ++i) {
    d_gain[i] = Sum(dot[i] * saved.rstd[i]);
    d_bias[i] = Sum(sum[i]);
  }
  ready(layer.bias);
  ready(layer.weight);
  // The gradients of gain and bias are this rank's own part: the reducer adds them.
  if (all_reduce_) all_reduce_(std::span(sums_).subspan(1));
  const Sum* gain = tensors_.parameter(layer.weight);
  by_x_.resize(channels);
  scale_.resize(channels);
  shift_.resize(channels);
  for (std::size_t i = 0; i < channels; ++i) {
    const double by_g = static_cast<double>(gain[i]) * saved.rstd[i];
    scale_[i] = Sum(by_g);
    by_x_[i] = Sum(-by_g * saved.rstd[i] * saved.rstd[i] * dot[i] / saved.count);
    shift_[i] = Sum(-by_g * sum[i] / saved.count);
  }
  images_.batch_gradient(rows(layer), layer.out.channels, input(layer), d_out, saved.mean.data(),
                         scale_.data(), by_x_.data(), shift_.data(), d_input);
}

template class ConvNet<float>;
template class ConvNet<double>;
template class ConvNet<bfloat16>;

}  // namespace muster::models
