// SPDX-License-Identifier: Apache-2.0
#include "models/gpt.hpp"

#include "models/linear.hpp"
#include "models/rotary_table.hpp"
#include "muster/error.hpp"

namespace muster::models {
namespace {

template <typename Real>
compute::LlamaCompute<Real>* llama_compute(const GptConfig& config, compute::Compute<Real>& compute) {
  if (config.llama && !compute.llama())
    throw Error(ErrorCode::usage, "this device computes no models of the Llama kind: pass --device=cpu");
  return config.llama ? compute.llama() : nullptr;
}

}  // namespace

template <typename Real>
Gpt<Real>::Gpt(const GptConfig& config, const GptStage& stage, int max_batch, compute::Compute<Real>& compute,
               std::size_t extra, bool recompute)
    : config_(config),
      places_(config, stage.layers),
      tensors_(gpt_tensors(config, stage.layers), extra, std::is_same_v<Real, bfloat16>, compute.memory(),
               &compute.parameter_memory(), std::is_same_v<Real, bfloat16> && compute.rounded_only()),
      max_batch_(max_batch),
      compute_(compute),
      llama_(llama_compute(config, compute)),
      padded_vocabulary_(compute.padded_classes(config.vocabulary)),
      recompute_(recompute),
      rotary_(rotary_table<Sum>(config, compute.memory())),
      memory_(config, stage, max_batch, padded_vocabulary_, recompute, compute.memory()),
      slot_(&memory_.slots.front()) {
  find_tensors();
}

template <typename Real>
auto Gpt<Real>::find_weight(std::size_t place) -> Pair<Real> {
  return {tensors_.template weight<Real>(place),
          places_.has_biases() ? tensors_.template weight<Real>(place + 1) : nullptr};
}

template <typename Real>
auto Gpt<Real>::find_gradient(std::size_t place) -> Pair<Sum> {
  return {tensors_.gradient(place), places_.has_biases() ? tensors_.gradient(place + 1) : nullptr};
}

template <typename Real>
void Gpt<Real>::find_tensors() {
  for (auto& slot : memory_.slots) {
    for (std::size_t i = 0; i < slot.layers.size(); ++i) {
      const auto weights = slot.layers[i].p.all();
      const auto gradients = slot.layers[i].d.all();
      for (std::size_t j = 0; j < weights.size(); ++j) {
        const std::size_t place = places_.of(i, static_cast<LayerTensor>(j));
        *weights[j] = find_weight(place);
        *gradients[j] = find_gradient(place);
      }
    }
  }
  if (places_.has_output()) {
    output_table_ = tensors_.template weight<Real>(places_.output_layer());
    d_output_table_ = tensors_.gradient(places_.output_layer());
    final_gain_ = find_weight(places_.final_gain());
    d_final_gain_ = find_gradient(places_.final_gain());
  }
  if (!places_.has_embeddings()) return;
  token_table_ = tensors_.template weight<Real>(places_.token_embedding());
  d_token_table_ = tensors_.gradient(places_.token_embedding());
  if (llama_) return;
  position_table_ = tensors_.template weight<Real>(places_.position_embedding());
  d_position_table_ = tensors_.gradient(places_.position_embedding());
}

template <typename Real>
void Gpt<Real>::norm(const Sum* x, const Real* addend, Sum* sum, const Pair<Real>& p, const NormResult& to,
                     int rows) {
  if (llama_) {
    return llama_->rms_norm(x, addend, sum, p.weight, to.out, to.rstd, rows, config_.width,
                            config_.llama->norm_epsilon);
  }
  compute_.layer_norm(x, addend, sum, p.weight, p.bias, to.out, to.mean, to.rstd, rows, config_.width);
}

template <typename Real>
void Gpt<Real>::norm_backward(const Sum* x, const Pair<Real>& p, const NormResult& of, const Pair<Sum>& d,
                              Real* rounded, int rows) {
  if constexpr (std::is_same_v<Real, Sum>) {
    if (rounded == slot_->d_residual) rounded = nullptr;  // products read the gradient itself
  }
  if (llama_) {
    return llama_->rms_norm_backward(x, p.weight, of.rstd, memory_.d_norm, slot_->d_residual, rounded,
                                     d.weight, rows, config_.width);
  }
  compute_.layer_norm_backward(x, p.weight, of.mean, of.rstd, memory_.d_norm, slot_->d_residual, rounded,
                               d.weight, d.bias, rows, config_.width);
}

template <typename Real>
void Gpt<Real>::round_output_gradient(Real* rounded, int rows) {
  const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(config_.width);
  if constexpr (std::is_same_v<Real, bfloat16>)
    compute_.round(slot_->d_residual, rounded, count);
  else if (rounded != slot_->d_residual)
    compute_.copy(rounded, slot_->d_residual, count * sizeof(Sum));
}

template <typename Real>
void Gpt<Real>::rotate(Real* qkv, int rows, int length, bool back) {
  if (!llama_) return;
  llama_->rotate(
      {rows, length, 0, config_.heads + config_.kv_heads(), config_.head_width(), config_.qkv_width()},
      rotary_.data(), qkv, back);
}

template <typename Real>
void Gpt<Real>::linear(const Real* x, const Pair<Real>& p, Real* out, int rows, int from, int to) {
  compute_.matmul({rows, to, from, false, true, p.bias != nullptr, false}, x, p.weight, p.bias, out);
}

template <typename Real>
void Gpt<Real>::expand(const Layer& l, int rows) {
  if (llama_) {
    linear(l.norm2.out, l.p.expand, l.wide, rows, config_.width, config_.expanded_width());
    return llama_->swiglu(l.wide, l.hidden, rows, config_.mlp_width());
  }
  compute_.matmul_gelu(rows, config_.width, config_.mlp_width(), l.norm2.out, l.p.expand.weight,
                       l.p.expand.bias, l.wide, l.hidden);
}

template <typename Real>
void Gpt<Real>::forward_inside(const Layer& l, int batch, int length) {
  const int rows = batch * length, width = config_.width;
  linear(l.norm1.out, l.p.qkv, l.qkv, rows, width, config_.qkv_width());
  rotate(l.qkv, rows, length, false);
  compute_.attention(attention_shape(batch, length), l.qkv, l.attention, l.log_sum);
  linear(l.attention, l.p.output, memory_.projection, rows, width, width);
  norm(l.input, memory_.projection, l.middle, l.p.mlp_norm, l.norm2, rows);
  expand(l, rows);
}

template <typename Real>
void Gpt<Real>::forward_layer(const Layer& l, const Pair<Real>& next, const NormResult& next_norm, int batch,
                              int length) {
  const int rows = batch * length;
  forward_inside(l, batch, length);
  computed_ = &l;
  linear(l.hidden, l.p.project, memory_.projection, rows, config_.mlp_width(), config_.width);
  // The next normalization (the next layer's first or the final one) also adds the MLP's output to the
  // residual stream.
  Sum* sum = &l == &layers().back() ? slot_->residual : (&l + 1)->input;
  norm(l.middle, memory_.projection, sum, next, next_norm, rows);
}

// The normalization was computed together with a sum before; it has the same bits, since it reads that sum.
template <typename Real>
void Gpt<Real>::recompute_layer(const Layer& l, int batch, int length) {
  norm(l.input, nullptr, nullptr, l.p.attention_norm, l.norm1, batch * length);
  forward_inside(l, batch, length);
  computed_ = &l;
}

template <typename Real>
void Gpt<Real>::embed(const Token* tokens, int batch, int length) {
  Sum* const out = layers().front().input;
  if (llama_) return llama_->embed(tokens, token_table_, out, batch * length, config_.width);
  compute_.embed(tokens, token_table_, position_table_, out, batch, length, config_.width);
}

template <typename Real>
void Gpt<Real>::forward(int slot, const Token* tokens, int batch, int length) {
  slot_ = &memory_.slot(slot);
  const Layer& first = layers().front();
  if (places_.has_embeddings()) embed(tokens, batch, length);
  norm(first.input, nullptr, nullptr, first.p.attention_norm, first.norm1, batch * length);
  for (std::size_t i = 0; i < layers().size(); ++i) {
    const Layer& l = layers()[i];
    if (i + 1 < layers().size())
      forward_layer(l, layers()[i + 1].p.attention_norm, layers()[i + 1].norm1, batch, length);
    else if (places_.has_output())
      forward_layer(l, final_gain_, slot_->final_norm, batch, length);
    else
      forward_layer(l, l.p.mlp_norm, memory_.unused_norm, batch, length);
  }
}

template <typename Real>
void Gpt<Real>::forward_output(Real* logits, int rows) {
  linear(slot_->final_norm.out, {output_table_}, logits, rows, config_.width, padded_vocabulary_);
}

template <typename Real>
double Gpt<Real>::output_loss(int slot, const Token* targets, int batch, int length) {
  slot_ = &memory_.slot(slot);
  forward_output(memory_.logits, batch * length);
  return compute_.cross_entropy(memory_.logits, targets, batch * length, config_.vocabulary, Sum(0));
}

template <typename Real>
double Gpt<Real>::loss(const Token* tokens, const Token* targets, int batch, int length) {
  forward(0, tokens, batch, length);
  return output_loss(0, targets, batch, length);
}

template <typename Real>
double Gpt<Real>::loss_and_gradients(const Token* tokens, const Token* targets, int batch, int length,
                                     Sum gradient_scale, const Ready& ready) {
  gradients(tokens, targets, batch, length, gradient_scale, ready);
  return compute_.loss();
}

template <typename Real>
void Gpt<Real>::gradients(const Token* tokens, const Token* targets, int batch, int length,
                          Sum gradient_scale, const Ready& ready) {
  forward(0, tokens, batch, length);
  backward(0, tokens, targets, batch, length, gradient_scale, ready);
}

template <typename Real>
void Gpt<Real>::layer_input_gradients(const Layer& l, const LayerGradients& of, Real* before, int batch,
                                      int length, const std::function<void(LayerTensor)>& computed) {
  const int rows = batch * length, width = config_.width, hidden = config_.mlp_width();
  if (llama_) {
    input_gradient(compute_, l.p.project.weight, of.project, memory_.d_hidden, rows, hidden, width);
    llama_->swiglu_backward(l.wide, memory_.d_hidden, of.expand, rows, hidden);
  } else {
    compute_.matmul_gelu_backward(rows, hidden, width, of.project, l.p.project.weight, l.wide, of.expand);
  }
  computed(LayerTensor::project);
  input_gradient(compute_, l.p.expand.weight, of.expand, memory_.d_norm, rows, width,
                 config_.expanded_width());
  computed(LayerTensor::expand);
  norm_backward(l.middle, l.p.mlp_norm, l.norm2, of.mlp_norm, of.output, rows);
  computed(LayerTensor::mlp_gain);
  input_gradient(compute_, l.p.output.weight, of.output, memory_.d_attention, rows, width, width);
  computed(LayerTensor::output);
  compute_.attention_backward(attention_shape(batch, length), l.qkv, l.attention, l.log_sum,
                              memory_.d_attention, of.qkv);
  rotate(of.qkv, rows, length, true);
  input_gradient(compute_, l.p.qkv.weight, of.qkv, memory_.d_norm, rows, width, config_.qkv_width());
  computed(LayerTensor::qkv);
  norm_backward(l.input, l.p.attention_norm, l.norm1, of.attention_norm, before, rows);
  computed(LayerTensor::attention_gain);
}

template <typename Real>
void Gpt<Real>::take_gain(const Pair<Sum>& from, const Pair<Sum>& to) {
  if (from.weight == to.weight) return;
  const auto width = static_cast<std::size_t>(config_.width);
  compute_.accumulate(from.weight, to.weight, width, true);
  if (to.bias) compute_.accumulate(from.bias, to.bias, width, true);
}

template <typename Real>
void Gpt<Real>::layer_weight_gradient(LayerTensor tensor, const Layer& l, const LayerGradients& of,
                                      int rows) {
  const auto product = [&](const Real* input, const Real* d_out, const Pair<Sum>& d, int from, int to) {
    compute_.weight_gradient(rows, from, to, input, d_out, d.weight, d.bias);
  };
  const int width = config_.width;
  switch (tensor) {
    case LayerTensor::project:
      return product(l.hidden, of.project, l.d.project, config_.mlp_width(), width);
    case LayerTensor::expand:
      return product(l.norm2.out, of.expand, l.d.expand, width, config_.expanded_width());
    case LayerTensor::mlp_gain:
      return take_gain(of.mlp_norm, l.d.mlp_norm);
    case LayerTensor::output:
      return product(l.attention, of.output, l.d.output, width, width);
    case LayerTensor::qkv:
      return product(l.norm1.out, of.qkv, l.d.qkv, width, config_.qkv_width());
    case LayerTensor::attention_gain:
      return take_gain(of.attention_norm, l.d.attention_norm);
  }
}

template <typename Real>
void Gpt<Real>::backward_layer(std::size_t index, int batch, int length, const Ready& ready) {
  const Layer& l = layers()[index];
  Real* const d_residual = product_gradient();
  const LayerGradients of{d_residual,    memory_.d_wide, d_residual,
                          memory_.d_qkv, l.d.mlp_norm,   l.d.attention_norm};
  Real* const before = index > 0 ? d_residual : nullptr;
  layer_input_gradients(l, of, before, batch, length, [&](LayerTensor tensor) {
    layer_weight_gradient(tensor, l, of, batch * length);
    pair_ready(index, tensor, ready);
  });
}

template <typename Real>
void Gpt<Real>::backward_embeddings(const Token* tokens, int batch, int length, const Ready& ready) {
  if (!places_.has_embeddings()) return;
  const Sum* const d_out = slot_->d_residual;
  if (llama_) {
    if (!config_.has_tied_output())
      llama_->clear(d_token_table_, tensors_.table().tensors[places_.token_embedding()].count);
    llama_->embed_backward(tokens, d_out, d_token_table_, batch * length, config_.width);
  } else {
    compute_.embed_backward(tokens, d_out, d_token_table_, d_position_table_, batch, length, config_.context,
                            config_.width);
  }
  for (std::size_t i = places_.of(0, LayerTensor::attention_gain); i-- > 0;) ready(i);
}

template <typename Real>
void Gpt<Real>::output_input_gradient(Real* logits, const Pair<Sum>& d_gain, Real* rounded,
                                      const Token* targets, int rows, Sum gradient_scale) {
  forward_output(logits, rows);
  compute_.compute_cross_entropy(logits, targets, rows, config_.vocabulary, gradient_scale);
  input_gradient(compute_, output_table_, logits, memory_.d_norm, rows, config_.width, padded_vocabulary_);
  compute_.clear(slot_->d_residual,
                 static_cast<std::size_t>(rows) * static_cast<std::size_t>(config_.width) * sizeof(Sum));
  norm_backward(slot_->residual, final_gain_, slot_->final_norm, d_gain, rounded, rows);
}

// A tied table's gradient: the output layer's share overwrites, the embedding's is added later.
template <typename Real>
void Gpt<Real>::output_weight_gradient(const Real* logits, int rows) {
  compute_.weight_gradient(rows, config_.width, padded_vocabulary_, slot_->final_norm.out, logits,
                           d_output_table_, nullptr);
}

template <typename Real>
void Gpt<Real>::backward(int slot, const Token* tokens, const Token* targets, int batch, int length,
                         Sum gradient_scale, const Ready& ready) {
  slot_ = &memory_.slot(slot);
  if (places_.has_output()) {
    output_input_gradient(memory_.logits, d_final_gain_, product_gradient(), targets, batch * length,
                          gradient_scale);
    output_weight_gradient(memory_.logits, batch * length);
    for (std::size_t i = tensors_.table().tensors.size(); i-- > places_.final_gain();) ready(i);
  } else {
    round_output_gradient(product_gradient(), batch * length);
  }
  for (std::size_t i = layers().size(); i-- > 0;) {
    // A forward pass left the activations of its last layer.
    if (recompute_ && computed_ != &layers()[i]) recompute_layer(layers()[i], batch, length);
    backward_layer(i, batch, length, ready);
  }
  backward_embeddings(tokens, batch, length, ready);
}

// A copied table's gradient is not put off: the first stage's token embedding waits for it, and the gradients
// of the logits need not be kept, which are large.
template <typename Real>
void Gpt<Real>::backward_input(int slot, int weight_slot, const Token* targets, int batch, int length,
                               Sum gradient_scale, const Ready& ready) {
  slot_ = &memory_.slot(slot);
  auto& kept = memory_.weight_slot(weight_slot);
  const int rows = batch * length;
  if (places_.has_output()) {
    Real* const logits = copies_table() ? memory_.logits : kept.logits;
    output_input_gradient(logits, kept.final_norm, kept.layers.back().project, targets, rows, gradient_scale);
    if (copies_table()) {
      output_weight_gradient(logits, rows);
      ready(places_.output_layer());
    }
  } else {
    round_output_gradient(kept.layers.back().project, rows);
  }
  for (std::size_t i = layers().size(); i-- > 0;) {
    Real* const before = i > 0 ? kept.layers[i - 1].project : nullptr;
    layer_input_gradients(layers()[i], kept.layers[i], before, batch, length, [](LayerTensor) {});
  }
}

template <typename Real>
void Gpt<Real>::backward_weight(int slot, int weight_slot, const Token* tokens, int batch, int length,
                                const Ready& ready) {
  slot_ = &memory_.slot(slot);
  const auto& kept = memory_.weight_slot(weight_slot);
  const int rows = batch * length;
  if (places_.has_output()) {
    take_gain(kept.final_norm, d_final_gain_);
    if (!copies_table()) output_weight_gradient(kept.logits, rows);
    for (std::size_t i = tensors_.table().tensors.size(); i-- > places_.final_gain();)
      if (is_trained(i)) ready(i);
  }
  for (std::size_t i = layers().size(); i-- > 0;) {
    for (const LayerTensor tensor : {LayerTensor::project, LayerTensor::expand, LayerTensor::mlp_gain,
                                     LayerTensor::output, LayerTensor::qkv, LayerTensor::attention_gain}) {
      layer_weight_gradient(tensor, layers()[i], kept.layers[i], rows);
      pair_ready(i, tensor, ready);
    }
  }
  backward_embeddings(tokens, batch, length, ready);
}

template class Gpt<float>;
template class Gpt<double>;
template class Gpt<bfloat16>;

}  // namespace muster::models
