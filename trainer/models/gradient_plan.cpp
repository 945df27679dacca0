// SPDX-License-Identifier: Apache-2.0
#include "models/gradient_plan.hpp"

#include <algorithm>

namespace muster::models {

GradientPlan::GradientPlan(const ImageNetwork& network, bool has_input_gradient, int output_parts)
    : layers(network.layers.size()), has_input_gradient_(has_input_gradient) {
  const std::size_t last = layers.size() - 1;
  for (int part = 0; part < output_parts; ++part) give(last, take(network.layers[last].out.elements()));
  for (std::size_t number = network.layers.size() - 1; number > 0; --number) plan(network, number);
}

void GradientPlan::plan(const ImageNetwork& network, std::size_t number) {
  const Layer& layer = network.layers[number];
  LayerBuffers& use = layers[number];
  const std::size_t elements = network.layers[layer.input].out.elements();
  if (layer.kind == LayerKind::batch_norm) {
    // d_out becomes the gradient of the addend, else it is overwritten by that of the input.
    if (!layer.addend)
      use.d_input = use.d_out;
    else
      use.d_input = use.d_also ? use.d_also : take(elements);
    if (use.d_also && use.d_also != use.d_input) free_.push_back(*use.d_also);
    if (layer.addend) give(*layer.addend, *use.d_out);
    give(layer.input, *use.d_input);
    return;
  }
  if (use.d_also) free_.push_back(*use.d_also);  // it is added to d_out first
  if (layer.input != 0 || has_input_gradient_) {
    use.d_input = take(elements);
    give(layer.input, *use.d_input);
  }
  if (use.d_out) free_.push_back(*use.d_out);
}

/// The free buffer that fits best: the smallest that is large enough, else the largest, which grows.
std::size_t GradientPlan::take(std::size_t elements) {
  if (free_.empty()) {
    buffers.push_back(elements);
    return buffers.size() - 1;
  }
  const auto best = std::min_element(free_.begin(), free_.end(), [&](std::size_t a, std::size_t b) {
    const bool a_fits = buffers[a] >= elements, b_fits = buffers[b] >= elements;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? buffers[a] < buffers[b] : buffers[a] > buffers[b];
  });
  const std::size_t buffer = *best;
  free_.erase(best);
  buffers[buffer] = std::max(buffers[buffer], elements);
  return buffer;
}

void GradientPlan::give(std::size_t layer, std::size_t buffer) {
  (layers[layer].d_out ? layers[layer].d_also : layers[layer].d_out) = buffer;
}

}  // namespace muster::models
