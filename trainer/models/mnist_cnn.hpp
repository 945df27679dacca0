// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/image_network.hpp"

namespace muster::models {

/// Horovod's example network for MNIST (examples/pytorch/pytorch_mnist.py; at its time also that of
/// pytorch/examples), with its names and PyTorch's initial values: convolution 5x5 to 10 channels, pooling,
/// ReLU, convolution 5x5 to 20 channels, dropout of channels, pooling, ReLU, linear 320 to 50, ReLU, dropout,
/// linear 50 to 10. 21,840 parameters.
ImageNetwork mnist_cnn();

}  // namespace muster::models
