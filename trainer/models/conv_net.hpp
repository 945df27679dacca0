// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/gradient_plan.hpp"
#include "models/image_network.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

/// Computes an ImageNetwork on one device. Images and all outputs are [batch, height, width, channels]. Not
/// thread-safe.
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
  ConvNet(ImageNetwork network, int max_batch, compute::Compute<Real>& compute, std::size_t extra = 0);

  const ImageNetwork& network() const noexcept { return network_; }
  ModelTensors<Sum>& tensors() noexcept { return tensors_; }
  int max_batch() const noexcept { return max_batch_; }
  /// Bytes of parameters, gradients and activations.
  std::size_t bytes() const noexcept {
    return tensors_.bytes() + activations_.size() * sizeof(Real) + statistics_.size() * sizeof(Sum) +
           places_memory_.size();
  }

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

 private:
  void forward(const Real* images, int batch, bool training, Sum gradient_scale);
  void forward(std::size_t number, bool training, Sum gradient_scale);
  void normalize(std::size_t number, bool training, Sum gradient_scale);
  /// A linear layer as well: a convolution of one pixel.
  void convolve(const Layer& layer, Real* out);
  std::int64_t count_correct(const compute::Token* labels);
  void backward(const compute::Token* labels, Sum gradient_scale, const Ready& ready);
  void backward(std::size_t number, const Ready& ready);
  void backward_convolution(const Layer& layer, const Real* d_out, Real* d_input, const Ready& ready);
  void backward_norm(std::size_t number, Real* d_out, const Real* d_also, Real* d_input, const Ready& ready);
  compute::BatchNorm<Real> batch_norm(std::size_t number);
  const Real* dropout_of(const Layer& layer) const {
    return layer.dropout < 0 || dropout_.empty() ? nullptr
                                                 : dropout_[static_cast<std::size_t>(layer.dropout)];
  }
  const Real* input(const Layer& layer) const { return outputs_[layer.input]; }
  Real* buffer(const std::optional<std::size_t>& number) { return number ? buffers_[*number] : nullptr; }
  std::size_t rows(const Layer& layer) const { return static_cast<std::size_t>(batch_) * layer.out.pixels(); }

  ImageNetwork network_;
  GradientPlan plan_;
  ModelTensors<Sum> tensors_;
  int max_batch_, batch_ = 0;
  compute::Compute<Real>& compute_;
  compute::ImageCompute<Real>& images_;
  compute::Arena<Real> activations_;
  std::vector<Real*> outputs_, buffers_;
  compute::Arena<std::uint8_t> places_memory_;
  std::vector<std::uint8_t*> places_;  ///< of max pooling's largest pixels, for each layer
  Dropout dropout_;
  compute::Arena<Sum> statistics_;
  std::vector<Sum*> means_, rstds_;  ///< of batch normalizations, for each layer
  AllReduce all_reduce_;
};

}  // namespace muster::models
