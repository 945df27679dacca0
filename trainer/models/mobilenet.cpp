// SPDX-License-Identifier: Apache-2.0
#include "models/mobilenet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::models {

ImageNetwork mobilenet_v1(double width, int classes, const ImageSize& images) {
  // Output channels and stride of the pairs: table 1 of the paper.
  constexpr std::pair<int, int> pairs[] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                                           {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                                           {512, 1}, {1024, 2}, {1024, 1}};
  const auto scaled = [&](int channels) { return std::max(1, static_cast<int>(channels * width)); };
  NetworkBuilder build(images);
  std::size_t x = build.convolution(0, "conv1", scaled(32), {3, 2, 1});
  x = build.batch_norm(x, "bn1", true);
  int number = 0;
  for (const auto& [channels, stride] : pairs) {
    const std::string name = fmt::format("blocks.{}.", number++);
    const int in = build.size(x).channels;
    x = build.convolution(x, name + "depthwise", in, {3, stride, 1, in});
    x = build.batch_norm(x, name + "bn1", true);
    x = build.convolution(x, name + "pointwise", scaled(channels), {1, 1, 0});
    x = build.batch_norm(x, name + "bn2", true);
  }
  build.linear(build.mean_pool(x), "fc", classes);
  return build.take(fmt::format("mobilenet-v1 width={} classes={}", width, classes));
}

}  // namespace muster::models
