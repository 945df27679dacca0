// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

/// Names and shapes of examples/pytorch/pytorch_mnist.py of horovod/horovod, and PyTorch's initial values:
/// uniform within 1 / sqrt(fan-in). 21,840 parameters.
TensorTable mnist_cnn_tensors();

/// Floating-point operations of one training step per image: two per multiply-add forward, and twice as many
/// backward, except for the gradient of the images, which is not computed.
double mnist_cnn_flops_per_image();

/// Factors of dropout: 0 or 2, or null for 1 (validation).
template <typename Real>
struct Dropout {
  const Real* channels = nullptr;  ///< [batch, 20], of the second convolution's output
  const Real* hidden = nullptr;    ///< [batch, 50]
};

/// Horovod's example network for MNIST (at its time also that of pytorch/examples): convolution 5x5 to 10
/// channels, pooling, ReLU, convolution 5x5 to 20 channels, dropout of channels, pooling, ReLU, linear 320 to
/// 50, ReLU, dropout, linear 50 to 10. Not thread-safe.
template <typename Real>
class MnistCnn {
 public:
  using Sum = compute::Accurate<Real>;
  static constexpr int side = 28, pixels = side * side, classes = 10, dropped_channels = 20, hidden = 50;

  /// Allocates for `max_batch` images. `extra`: see ModelTensors.
  MnistCnn(int max_batch, compute::Compute<Real>& compute, std::size_t extra = 0);

  ModelTensors<Sum>& tensors() noexcept { return tensors_; }
  int max_batch() const noexcept { return max_batch_; }
  /// Bytes of parameters, gradients and activations.
  std::size_t bytes() const noexcept { return tensors_.bytes() + activations_.size() * sizeof(Real); }

  struct Result {
    double loss = 0;         ///< sum of the cross-entropy, nats
    std::int64_t right = 0;  ///< images whose label has the largest logit
  };
  /// images: [batch, 28, 28]; labels: [batch], below 10.
  Result loss(const Real* images, const compute::Token* labels, int batch, const Dropout<Real>& dropout = {});
  /// Called with a tensor's number in the table as soon as its gradient is complete; from the last to the
  /// first.
  using Ready = std::function<void(std::size_t tensor)>;
  /// Like loss(), and overwrites the gradients with gradient_scale * d sum / d parameters.
  Result loss_and_gradients(
      const Real* images, const compute::Token* labels, int batch, const Dropout<Real>& dropout,
      Sum gradient_scale, const Ready& ready = [](std::size_t) {});

 private:
  void lay_out_activations();
  void forward(const Real* images, int batch, const Dropout<Real>& dropout);
  void backward(int batch, const Dropout<Real>& dropout, const Ready& ready);

  ModelTensors<Sum> tensors_;
  int max_batch_;
  compute::Compute<Real>& compute_;
  compute::Arena<Real> activations_;
  // [batch * places, …]; convolutions keep channels last.
  Real *columns1_, *convolution1_, *pool1_, *columns2_, *convolution2_, *pool2_, *hidden_sum_, *hidden_,
      *logits_;
  Real *d_hidden_, *d_pool2_, *d_convolution2_, *d_columns2_, *d_pool1_, *d_convolution1_;
};

}  // namespace muster::models
