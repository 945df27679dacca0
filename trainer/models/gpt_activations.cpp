// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_activations.hpp"

namespace muster::models {

template <typename Real>
void GptActivations<Real>::Plan::norm(GptNorm<Real>& to) {
  reserve(&to.out, config.width);
  if (!config.llama) sums.reserve(&to.mean, rows);
  sums.reserve(&to.rstd, rows);
}

template <typename Real>
void GptActivations<Real>::Plan::gain(GptPair<Sum>& to) {
  sums.reserve(&to.weight, static_cast<std::size_t>(config.width));
  if (!config.llama) sums.reserve(&to.bias, static_cast<std::size_t>(config.width));
}

template <typename Real>
GptActivations<Real>::GptActivations(const GptConfig& config, const GptStage& stage, int max_batch,
                                     int classes, bool recompute, compute::Memory& memory)
    : slots(static_cast<std::size_t>(stage.micro_batches)),
      weight_slots_(static_cast<std::size_t>(stage.weight_slots)) {
  const auto layers = static_cast<std::size_t>(stage.layers.count());
  const std::size_t rows = static_cast<std::size_t>(max_batch) * static_cast<std::size_t>(config.context);
  Plan plan{config,
            rows,
            rows * static_cast<std::size_t>(classes),
            stage.layers.has_output(config),
            stage.layers.has_copied_table(config),
            recompute,
            {},
            {}};
  for (GptSlot<Real>& slot : slots) {
    slot.layers.resize(layers);
    lay_out_slot(plan, slot);
  }
  lay_out_outside(plan);
  for (GptWeightSlot<Real>& kept : weight_slots_) {
    kept.layers.resize(layers);
    lay_out_weight_slot(plan, kept);
  }
  reals_ = plan.reals.allocate(memory);
  sums_ = plan.sums.allocate(memory);
  if (!logits && !weight_slots_.empty()) logits = weight_slots_.front().logits;
  if (recompute) share_first_layer();
}

template <typename Real>
void GptActivations<Real>::lay_out_slot(Plan& plan, GptSlot<Real>& slot) {
  const GptConfig& config = plan.config;
  for (GptLayer<Real>& l : slot.layers) {
    plan.residual(&l.input);
    // With recompute, they share the first layer's memory.
    if (plan.recompute && &l != &slots.front().layers.front()) continue;
    for (GptNorm<Real>* norm : {&l.norm1, &l.norm2}) plan.norm(*norm);
    plan.residual(&l.middle);
    plan.reserve(&l.attention, config.width);
    plan.reserve(&l.wide, config.expanded_width());
    plan.reserve(&l.hidden, config.mlp_width());
    plan.reserve(&l.qkv, config.qkv_width());
    plan.sums.reserve(&l.log_sum, plan.rows * static_cast<std::size_t>(config.heads));
  }
  if (plan.has_output) plan.norm(slot.final_norm);
  for (Sum** p : {&slot.residual, &slot.d_residual}) plan.residual(p);
}

template <typename Real>
void GptActivations<Real>::lay_out_outside(Plan& plan) {
  const GptConfig& config = plan.config;
  const bool splits = !weight_slots_.empty();
  for (Real** p : {&projection, &d_norm, &d_attention}) plan.reserve(p, config.width);
  if (!plan.has_output)
    plan.norm(unused_norm);
  else if (!splits || plan.copies_table)
    plan.reals.reserve(&logits, plan.logits);
  if (config.llama) plan.reserve(&d_hidden, config.mlp_width());
  if (splits) return;
  if (!std::is_same_v<Real, Sum>) plan.reserve(&d_rounded, config.width);
  plan.reserve(&d_wide, config.expanded_width());
  plan.reserve(&d_qkv, config.qkv_width());
}

template <typename Real>
void GptActivations<Real>::lay_out_weight_slot(Plan& plan, GptWeightSlot<Real>& kept) {
  const GptConfig& config = plan.config;
  for (GptLayerGradients<Real>& of : kept.layers) {
    for (Real** p : {&of.project, &of.output}) plan.reserve(p, config.width);
    plan.reserve(&of.expand, config.expanded_width());
    plan.reserve(&of.qkv, config.qkv_width());
    for (GptPair<Sum>* gain : {&of.mlp_norm, &of.attention_norm}) plan.gain(*gain);
  }
  if (!plan.has_output) return;
  plan.gain(kept.final_norm);
  if (!plan.copies_table) plan.reals.reserve(&kept.logits, plan.logits);
}

template <typename Real>
void GptActivations<Real>::share_first_layer() {
  const GptLayer<Real> first = slots.front().layers.front();
  for (GptSlot<Real>& slot : slots) {
    for (GptLayer<Real>& l : slot.layers) {
      GptLayer<Real> shared = first;
      shared.input = l.input;
      l = shared;
    }
  }
}

template class GptActivations<float>;
template class GptActivations<double>;
template class GptActivations<bfloat16>;

}  // namespace muster::models
