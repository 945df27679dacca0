// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/image_network.hpp"

namespace muster::models {

/// Names of --model for networks on images.
const std::vector<std::string>& image_network_names();
bool is_image_network(const std::string& name);
/// Whether the network has batch normalization, and takes coloured images of any size; else MNIST's images.
bool has_batch_norm(const std::string& name);
/// The network with this name. `width`: MobileNet's multiplier.
ImageNetwork named_network(const std::string& name, double width, int classes, const ImageSize& images);

/// The name and the sizes in an ImageNetwork::text.
struct NamedNetwork {
  std::string name;
  double width = 1;
  int classes = 10;
};
/// Nothing if the text is not of a network with a name.
std::optional<NamedNetwork> parse_network_text(const std::string& text);

}  // namespace muster::models
