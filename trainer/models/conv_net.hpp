// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compute/compute.hpp"
#include "models/conv_net_activations.hpp"
#include "models/image_network.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

/// Computes an ImageNetwork, or one stage of it, on one device. Images and all outputs are [batch, height,
/// width, channels]. Not thread-safe.
///
/// Batch normalization (Ioffe and Szegedy, arXiv 1502.03167) uses the statistics of the given batch in
/// loss_and_gradients() and the running ones in loss(), with PyTorch's epsilon 1e-5. The gradient of a
/// running statistic is the batch's mean or unbiased variance times gradient_scale * batch, so that its sum
/// over chunks and ranks is the mean, weighted by samples.
template <typename Real>
class ConvNet {
 public:
  using Sum = compute::Accurate<Real>;

  /// Allocates for `max_batch` images. `extra`: see ModelTensors.
  /// @throws Error(ErrorCode::usage) when the device has no operations on images.
  ConvNet(ImageNetwork network, int max_batch, compute::Compute<Real>& compute, std::size_t extra = 0)
      : ConvNet(NetworkStage{std::move(network)}, {max_batch}, compute, extra) {}
  /// A stage of a pipeline.
  ConvNet(NetworkStage stage, const ConvNetSizes& sizes, compute::Compute<Real>& compute,
          std::size_t extra = 0);

  const ImageNetwork& network() const noexcept { return network_; }
  const NetworkStage& stage() const noexcept { return stage_; }
  ModelTensors<Sum>& tensors() noexcept { return tensors_; }
  int max_batch() const noexcept { return max_batch_; }
  /// Bytes of parameters, gradients and activations.
  std::size_t bytes() const noexcept { return tensors_.bytes() + memory_.bytes(); }

  using AllReduce = typename compute::BatchNorm<Real>::AllReduce;
  /// From now on batch statistics are those of all ranks' batches together. Every rank has to call
  /// loss_and_gradients() then.
  void synchronize_batch_norm(AllReduce all_reduce) { all_reduce_ = std::move(all_reduce); }

  struct Result {
    double loss = 0;         ///< sum of the cross-entropy, nats
    std::int64_t right = 0;  ///< images whose label has the largest logit
  };
  /// Factors of each dropout of the network, [batch, channels]: 0 or 2, for example. Empty: no dropout.
  using Dropout = std::vector<const Real*>;
  /// Images, and factors of dropout, are memory of the device. labels: [batch], below the number of classes.
  Result loss(const Real* images, const compute::Token* labels, int batch);
  /// Called with a tensor's number in the table as soon as its gradient is complete.
  using Ready = std::function<void(std::size_t tensor)>;
  /// Overwrites the gradients with gradient_scale * d sum / d parameters. compute.loss() then returns the
  /// loss in training.
  void gradients(const Real* images, const compute::Token* labels, int batch, const Dropout& dropout,
                 Sum gradient_scale, const Ready& ready);
  /// Like gradients(), and returns the result, which waits for an asynchronous device.
  Result loss_and_gradients(
      const Real* images, const compute::Token* labels, int batch, const Dropout& dropout, Sum gradient_scale,
      const Ready& ready = [](std::size_t) {});

  /// What a stage exchanges for a slot's micro-batch, [batch, height, width, channels]: the activations
  /// before its first layer and behind its last one; the gradient of the latter, before backward(), in parts
  /// that all slots share; and that of the former, behind backward(), in parts. The parts add up to the
  /// gradient.
  Real* input(int slot) { return memory_.slot(slot).outputs.front(); }
  Real* output(int slot) { return memory_.slot(slot).outputs.back(); }
  std::vector<Real*> output_gradient();
  std::vector<Real*> input_gradient(int slot);
  /// The forward pass in training. `images` stay until the backward pass; null for another than the first
  /// stage. gradient_scale: that of backward(), for the running statistics.
  void forward(int slot, const Real* images, int batch, const Dropout& dropout, Sum gradient_scale);
  /// With the running statistics, without dropout.
  void infer(int slot, const Real* images, int batch);
  /// Of the first images of the batch, after either, of the last stage.
  Result output_loss(int slot, const compute::Token* labels, int images);
  /// The gradients after forward(), as gradients() has them. Only the last stage reads the labels.
  void backward(int slot, const compute::Token* labels, Sum gradient_scale, const Ready& ready);
  /// The two halves of backward(): the gradient of the input, and later the gradients of the weights. Both
  /// need what `weight_slot`, below ConvNetSizes::weight_slots, keeps in between. A network with weight slots
  /// computes its backward passes in halves only.
  void backward_input(int slot, int weight_slot, const compute::Token* labels, Sum gradient_scale);
  void backward_weight(int slot, int weight_slot, const Ready& ready);

 private:
  void begin(int slot, const Real* images, int batch, const Dropout& dropout);
  void forward_layer(std::size_t number, bool training, Sum gradient_scale);
  void normalize(std::size_t number, bool training, Sum gradient_scale);
  /// A linear layer as well: a convolution of one pixel.
  void convolve(const Layer& layer, Real* out);
  std::int64_t count_correct(const compute::Token* labels, int images);
  /// Where the forward pass writes the gradient of a running statistic.
  Sum* statistic(std::size_t tensor);
  void statistics_ready(const Ready& ready);
  void backward_loss(const compute::Token* labels, Sum gradient_scale);
  void backward_layer(std::size_t number, const Ready& ready);
  void keep_input_gradient();
  void backward_product(std::size_t number, const Ready& ready);
  void weight_gradient(std::size_t number, const Ready& ready);
  void backward_norm(std::size_t number, const Ready& ready);
  void take_norm_gradients(std::size_t number, const Ready& ready);
  /// The gradient of a layer's output; the loss replaces the logits by theirs.
  Real* output_gradient_of(std::size_t number) {
    const auto& d_out = memory_.plan().layers[number].d_out;
    return d_out ? memory_.buffer(d_out, kept_) : slot_->outputs.back();
  }
  compute::BatchNorm<Real> batch_norm(std::size_t number);
  const Real* dropout_of(const Layer& layer) const {
    return layer.dropout < 0 || slot_->dropout.empty()
               ? nullptr
               : slot_->dropout[static_cast<std::size_t>(layer.dropout)];
  }
  const Real* input(const Layer& layer) const { return slot_->outputs[layer.input]; }
  int batch() const { return slot_->batch; }
  std::size_t elements(const Layer& layer) const {
    return static_cast<std::size_t>(batch()) * layer.out.elements();
  }

  NetworkStage stage_;
  const ImageNetwork& network_;
  ModelTensors<Sum> tensors_;
  int max_batch_;
  compute::Compute<Real>& compute_;
  compute::ImageCompute<Real>& images_;
  ConvNetActivations<Real> memory_;
  ConvNetSlot<Real>* slot_;  ///< that is computed
  /// Of the half of a backward pass that is computed; null for a whole one.
  const ConvNetWeightSlot<Real>* kept_ = nullptr;
  AllReduce all_reduce_;
};

}  // namespace muster::models
