// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/image_network.hpp"

namespace muster::models {

/// Which buffer holds which gradient in a backward pass. Buffers are used again as soon as their gradient is
/// no longer needed, so that a deep network needs a few only.
struct GradientPlan {
  /// Of one layer. The gradient of the logits has no buffer: it replaces them.
  struct LayerBuffers {
    std::optional<std::size_t> d_out;    ///< gradient of the output; none for the last layer
    std::optional<std::size_t> d_also;   ///< a second part of that gradient, from another layer
    std::optional<std::size_t> d_input;  ///< where this layer writes the gradient of its input; maybe d_out
  };
  std::vector<LayerBuffers> layers;
  /// Elements of each buffer per image.
  std::vector<std::size_t> buffers;

  explicit GradientPlan(const ImageNetwork& network);

 private:
  void plan(const ImageNetwork& network, std::size_t number);
  std::size_t take(std::size_t elements);
  void give(std::size_t layer, std::size_t buffer);
  std::vector<std::size_t> free_;
};

}  // namespace muster::models
