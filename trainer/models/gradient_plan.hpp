// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/image_network.hpp"

namespace muster::models {

/// Which buffer holds which gradient in a backward pass. Buffers are used again as soon as their gradient is
/// no longer needed, so that a deep network needs a few only.
///
/// A stage of a pipeline receives the gradient of its last layer's output in one or two parts, and computes
/// that of its input, layer 0's, in as many parts as layers take the input.
struct GradientPlan {
  /// Of one layer. The gradient of the logits has no buffer: it replaces them. Layer 0 has buffers for the
  /// gradient of a stage's input only.
  struct LayerBuffers {
    std::optional<std::size_t> d_out;    ///< gradient of the output; none for the last layer
    std::optional<std::size_t> d_also;   ///< a second part of that gradient, from another layer
    std::optional<std::size_t> d_input;  ///< where this layer writes the gradient of its input; maybe d_out
  };
  struct Buffer {
    std::size_t elements = 0;  ///< per image
    /// It holds the gradient of a convolution's or linear layer's output until the weights' gradient is
    /// computed in the second half of a backward pass.
    bool is_kept = false;
  };
  std::vector<LayerBuffers> layers;
  std::vector<Buffer> buffers;

  /// `output_parts`: of the gradient that a stage receives; 0: the last layer's output is the logits.
  /// `halves`: the backward pass is computed in two halves. Then no output of a layer is overwritten.
  explicit GradientPlan(const ImageNetwork& network, bool has_input_gradient = false, int output_parts = 0,
                        bool halves = false);

 private:
  void plan(const ImageNetwork& network, std::size_t number);
  void plan_norm(const ImageNetwork& network, std::size_t number);
  /// A buffer for the gradient of a layer's output.
  std::size_t take_for(const ImageNetwork& network, std::size_t layer);
  std::size_t take(std::size_t elements);
  void release(std::size_t buffer);
  void give(std::size_t layer, std::size_t buffer);
  std::vector<std::size_t> free_;
  bool has_input_gradient_, halves_;
};

}  // namespace muster::models
