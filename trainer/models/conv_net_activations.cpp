// SPDX-License-Identifier: Apache-2.0
#include "models/conv_net_activations.hpp"

#include "models/model_tensors.hpp"

namespace muster::models {

template <typename Real>
struct ConvNetActivations<Real>::Layouts {
  Layout<Real> reals;
  Layout<Sum> sums;
  Layout<std::uint8_t> places;
};

template <typename Real>
ConvNetActivations<Real>::ConvNetActivations(const NetworkStage& stage, const ConvNetSizes& sizes,
                                             compute::Memory& memory)
    : plan_(stage.network, !stage.is_first, stage.output_uses, sizes.weight_slots > 0),
      slots_(static_cast<std::size_t>(sizes.slots)),
      weight_slots_(static_cast<std::size_t>(sizes.weight_slots)),
      buffers_(plan_.buffers.size()) {
  Layouts layouts;
  for (ConvNetSlot<Real>& slot : slots_) {
    const int most_images = &slot == slots_.data() ? sizes.max_batch : sizes.training_batch;
    lay_out_slot(slot, stage, static_cast<std::size_t>(most_images), layouts);
    lay_out_results(slot, stage, sizes, layouts);
  }
  const auto images = static_cast<std::size_t>(sizes.training_batch);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (!plan_.buffers[i].is_kept) layouts.reals.reserve(&buffers_[i], images * plan_.buffers[i].elements);
  for (ConvNetWeightSlot<Real>& kept : weight_slots_) lay_out_weight_slot(kept, stage, images, layouts);
  reals_ = layouts.reals.allocate(memory);
  sums_ = layouts.sums.allocate(memory);
  places_ = layouts.places.allocate(memory);
}

template <typename Real>
void ConvNetActivations<Real>::lay_out_slot(ConvNetSlot<Real>& slot, const NetworkStage& stage,
                                            std::size_t images, Layouts& layouts) {
  const std::vector<Layer>& layers = stage.network.layers;
  slot.outputs.resize(layers.size());
  slot.places.resize(layers.size());
  slot.means.resize(layers.size());
  slot.rstds.resize(layers.size());
  for (std::size_t i = stage.is_first ? 1 : 0; i < layers.size(); ++i) {
    const std::size_t elements = images * layers[i].out.elements();
    layouts.reals.reserve(&slot.outputs[i], elements);
    if (layers[i].kind == LayerKind::max_pool) layouts.places.reserve(&slot.places[i], elements);
    if (layers[i].kind != LayerKind::batch_norm) continue;
    for (auto* const each : {&slot.means, &slot.rstds})
      layouts.sums.reserve(&(*each)[i], static_cast<std::size_t>(layers[i].out.channels));
  }
}

template <typename Real>
void ConvNetActivations<Real>::lay_out_results(ConvNetSlot<Real>& slot, const NetworkStage& stage,
                                               const ConvNetSizes& sizes, Layouts& layouts) {
  const std::size_t input =
      static_cast<std::size_t>(sizes.training_batch) * stage.network.layers.front().out.elements();
  if (plan_.layers.front().d_out) layouts.reals.reserve(&slot.d_input[0], input);
  if (plan_.layers.front().d_also) layouts.reals.reserve(&slot.d_input[1], input);
  const TensorTable& table = stage.network.table;
  if (sizes.slots > 1) layouts.sums.reserve(&slot.statistics, table.arena_size - table.trained_size);
}

template <typename Real>
void ConvNetActivations<Real>::lay_out_weight_slot(ConvNetWeightSlot<Real>& kept, const NetworkStage& stage,
                                                   std::size_t images, Layouts& layouts) {
  const std::vector<Layer>& layers = stage.network.layers;
  kept.buffers.resize(plan_.buffers.size());
  kept.norms.resize(layers.size());
  for (std::size_t i = 0; i < kept.buffers.size(); ++i)
    if (plan_.buffers[i].is_kept) layouts.reals.reserve(&kept.buffers[i], images * plan_.buffers[i].elements);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != LayerKind::batch_norm) continue;
    for (Sum** const each : {&kept.norms[i].gain, &kept.norms[i].bias})
      layouts.sums.reserve(each, static_cast<std::size_t>(layers[i].out.channels));
  }
}

template class ConvNetActivations<float>;
template class ConvNetActivations<double>;
template class ConvNetActivations<bfloat16>;

}  // namespace muster::models
