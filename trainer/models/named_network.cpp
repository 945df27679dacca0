// SPDX-License-Identifier: Apache-2.0
#include "models/named_network.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "models/mnist_cnn.hpp"
#include "models/mobilenet.hpp"
#include "models/resnet.hpp"

namespace muster::models {
namespace {

/// Names of the residual networks for CIFAR, and their blocks in each of three stages.
constexpr std::pair<const char*, int> resnets[] = {
    {"resnet20", 3}, {"resnet32", 5}, {"resnet44", 7}, {"resnet56", 9}, {"resnet110", 18}};

}  // namespace

const std::vector<std::string>& image_network_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"mnist-cnn"};
    for (const auto& [name, blocks] : resnets) all.emplace_back(name);
    all.insert(all.end(), {"resnet50", "mobilenet-v1"});
    return all;
  }();
  return names;
}

bool is_image_network(const std::string& name) {
  const auto& names = image_network_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_batch_norm(const std::string& name) { return is_image_network(name) && name != "mnist-cnn"; }

ImageNetwork named_network(const std::string& name, double width, int classes, const ImageSize& images) {
  if (name == "mnist-cnn") return mnist_cnn();
  for (const auto& [resnet, blocks] : resnets) {
    if (name == resnet) return resnet_cifar(blocks, classes, images);
  }
  return name == "resnet50" ? resnet50(classes, images) : mobilenet_v1(width, classes, images);
}

std::optional<NamedNetwork> parse_network_text(const std::string& text) {
  NamedNetwork network;
  network.name = text.substr(0, text.find(' '));
  if (!is_image_network(network.name)) return std::nullopt;
  const auto read = [&text](const char* key, auto& value) {
    const auto at = text.find(key);
    if (at == std::string::npos) return;
    const std::string_view from(key);
    std::from_chars(text.data() + at + from.size(), text.data() + text.size(), value);
  };
  read(" width=", network.width);
  read(" classes=", network.classes);
  const bool plausible = network.width > 0 && network.width <= 16 && network.classes > 0 &&
                         network.classes <= compute::most_classes;
  if (!plausible || named_network(network.name, network.width, network.classes, {32, 32, 3}).text != text)
    return std::nullopt;
  return network;
}

}  // namespace muster::models
