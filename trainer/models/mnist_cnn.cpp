// SPDX-License-Identifier: Apache-2.0
#include "models/mnist_cnn.hpp"

namespace muster::models {

ImageNetwork mnist_cnn() {
  constexpr int classes = 10;
  NetworkBuilder build({28, 28, 1});
  std::size_t x = build.convolution_with_bias(0, "conv1", 10, {5, 1, 0});
  x = build.relu(build.max_pool(x, {2, 2, 0}), false);
  x = build.convolution_with_bias(x, "conv2", 20, {5, 1, 0});
  // Factors of dropout are not negative, so they may follow the pooling.
  x = build.relu(build.max_pool(x, {2, 2, 0}), true);
  x = build.relu(build.linear(build.flatten(x), "fc1", 50), true);
  build.linear(x, "fc2", classes);
  return build.take("mnist-cnn");
}

}  // namespace muster::models
