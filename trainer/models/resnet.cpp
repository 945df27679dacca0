// SPDX-License-Identifier: Apache-2.0
#include "models/resnet.hpp"

#include <fmt/format.h>

namespace muster::models {
namespace {

std::size_t basic_block(NetworkBuilder& build, std::size_t input, const std::string& name, int channels,
                        int stride) {
  std::size_t x = build.convolution(input, name + ".conv1", channels, {3, stride, 1});
  x = build.batch_norm(x, name + ".bn1", true);
  x = build.convolution(x, name + ".conv2", channels, {3, 1, 1});
  const std::size_t around = stride == 1 ? input : build.shortcut(input, channels);
  return build.batch_norm(x, name + ".bn2", true, around);
}

std::size_t bottleneck(NetworkBuilder& build, std::size_t input, const std::string& name, int channels,
                       int stride, bool projects) {
  std::size_t x = build.convolution(input, name + ".conv1", channels, {1, 1, 0});
  x = build.batch_norm(x, name + ".bn1", true);
  x = build.convolution(x, name + ".conv2", channels, {3, stride, 1});
  x = build.batch_norm(x, name + ".bn2", true);
  x = build.convolution(x, name + ".conv3", 4 * channels, {1, 1, 0});
  std::size_t around = input;
  if (projects) {
    around = build.convolution(input, name + ".downsample.0", 4 * channels, {1, stride, 0});
    around = build.batch_norm(around, name + ".downsample.1", false);
  }
  return build.batch_norm(x, name + ".bn3", true, around);
}

}  // namespace

ImageNetwork resnet_cifar(int blocks, int classes, const ImageSize& images) {
  NetworkBuilder build(images);
  std::size_t x = build.convolution(0, "conv1", 16, {3, 1, 1});
  x = build.batch_norm(x, "bn1", true);
  for (int stage = 0; stage < 3; ++stage) {
    for (int block = 0; block < blocks; ++block) {
      x = basic_block(build, x, fmt::format("layer{}.{}", stage + 1, block), 16 << stage,
                      stage > 0 && block == 0 ? 2 : 1);
    }
  }
  build.linear(build.mean_pool(x), "linear", classes);
  return build.take(fmt::format("resnet{} classes={}", 6 * blocks + 2, classes));
}

ImageNetwork resnet50(int classes, const ImageSize& images) {
  NetworkBuilder build(images);
  std::size_t x = build.convolution(0, "conv1", 64, {7, 2, 3});
  x = build.batch_norm(x, "bn1", true);
  x = build.max_pool(x, {3, 2, 1});
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      x = bottleneck(build, x, fmt::format("layer{}.{}", stage + 1, block), 64 << stage,
                     stage > 0 && block == 0 ? 2 : 1, block == 0);
    }
  }
  build.linear(build.mean_pool(x), "fc", classes);
  return build.take(fmt::format("resnet50 classes={}", classes));
}

}  // namespace muster::models
