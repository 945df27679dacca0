// SPDX-License-Identifier: Apache-2.0
#include "models/gradient_plan.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::models {

GradientPlan::GradientPlan(const ImageNetwork& network, bool has_input_gradient, int output_parts,
                           bool halves)
    : layers(network.layers.size()), has_input_gradient_(has_input_gradient), halves_(halves) {
  const std::size_t last = layers.size() - 1;
  for (int part = 0; part < output_parts; ++part) give(last, take(network.layers[last].out.elements()));
  for (std::size_t number = network.layers.size() - 1; number > 0; --number) plan(network, number);
}

void GradientPlan::plan(const ImageNetwork& network, std::size_t number) {
  const Layer& layer = network.layers[number];
  if (layer.kind == LayerKind::batch_norm) return plan_norm(network, number);
  LayerBuffers& use = layers[number];
  if (halves_ && layer.is_product() && use.d_out && !buffers[*use.d_out].is_kept)
    throw std::logic_error("a gradient that the second half of a backward pass needs is not kept");
  if (use.d_also) release(*use.d_also);  // it is added to d_out first
  if (layer.input != 0 || has_input_gradient_) {
    use.d_input = take_for(network, layer.input);
    give(layer.input, *use.d_input);
  }
  if (use.d_out) release(*use.d_out);
}

// d_out becomes the gradient of the addend, else it is overwritten by that of the input. On a GPU the latter
// also overwrites the layer's output, which the second half of a backward pass still needs.
void GradientPlan::plan_norm(const ImageNetwork& network, std::size_t number) {
  const Layer& layer = network.layers[number];
  LayerBuffers& use = layers[number];
  const bool in_place = !halves_ && !layer.addend;
  if (in_place)
    use.d_input = use.d_out;
  else
    use.d_input = !halves_ && use.d_also ? use.d_also : take_for(network, layer.input);
  if (use.d_also && use.d_also != use.d_input) release(*use.d_also);
  if (layer.addend)
    give(*layer.addend, *use.d_out);
  else if (!in_place)
    release(*use.d_out);
  give(layer.input, *use.d_input);
}

std::size_t GradientPlan::take_for(const ImageNetwork& network, std::size_t layer) {
  const std::size_t elements = network.layers[layer].out.elements();
  if (!halves_ || !network.layers[layer].is_product() || layers[layer].d_out) return take(elements);
  buffers.push_back({elements, true});
  return buffers.size() - 1;
}

/// The free buffer that fits best: the smallest that is large enough, else the largest, which grows.
std::size_t GradientPlan::take(std::size_t elements) {
  if (free_.empty()) {
    buffers.push_back({elements});
    return buffers.size() - 1;
  }
  const auto best = std::min_element(free_.begin(), free_.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t of_a = buffers[a].elements, of_b = buffers[b].elements;
    const bool a_fits = of_a >= elements, b_fits = of_b >= elements;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? of_a < of_b : of_a > of_b;
  });
  const std::size_t buffer = *best;
  free_.erase(best);
  buffers[buffer].elements = std::max(buffers[buffer].elements, elements);
  return buffer;
}

void GradientPlan::release(std::size_t buffer) {
  if (!buffers[buffer].is_kept) free_.push_back(buffer);
}

void GradientPlan::give(std::size_t layer, std::size_t buffer) {
  (layers[layer].d_out ? layers[layer].d_also : layers[layer].d_out) = buffer;
}

}  // namespace muster::models
