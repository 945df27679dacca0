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
      slots_(static_cast<std::size_t>(stage.micro_batches)) {
  for (Slot& slot : slots_) slot.layers.resize(static_cast<std::size_t>(stage.layers.count()));
  slot_ = &slots_.front();
  find_tensors();
  lay_out_activations();
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
  for (Slot& slot : slots_) {
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
void Gpt<Real>::lay_out_norm(NormResult& norm, Layout<Real>& layout, Layout<Sum>& statistics) {
  layout.reserve(&norm.out, max_rows() * static_cast<std::size_t>(config_.width));
  if (!llama_) statistics.reserve(&norm.mean, max_rows());
  statistics.reserve(&norm.rstd, max_rows());
}

template <typename Real>
void Gpt<Real>::lay_out_slot(Slot& slot, Layout<Real>& layout, Layout<Sum>& statistics) {
  const std::size_t rows = max_rows(), width = static_cast<std::size_t>(config_.width);
  for (Layer& l : slot.layers) {
    layout.reserve(&l.input, rows * width);
    // With recompute, they share the first layer's memory.
    if (recompute_ && &l != &slots_.front().layers.front()) continue;
    for (NormResult* norm : {&l.norm1, &l.norm2}) lay_out_norm(*norm, layout, statistics);
    for (Real** p : {&l.attention, &l.middle}) layout.reserve(p, rows * width);
    layout.reserve(&l.wide, rows * static_cast<std::size_t>(config_.expanded_width()));
    layout.reserve(&l.hidden, rows * static_cast<std::size_t>(config_.mlp_width()));
    layout.reserve(&l.qkv, rows * static_cast<std::size_t>(config_.qkv_width()));
    statistics.reserve(&l.log_sum, rows * static_cast<std::size_t>(config_.heads));
  }
  if (places_.has_output()) lay_out_norm(slot.final_norm, layout, statistics);
  for (Real** p : {&slot.residual, &slot.d_residual}) layout.reserve(p, rows * width);
}

template <typename Real>
void Gpt<Real>::lay_out_activations() {
  const std::size_t rows = max_rows(), width = static_cast<std::size_t>(config_.width);
  Layout<Real> layout;
  Layout<Sum> statistics;
  for (Slot& slot : slots_) lay_out_slot(slot, layout, statistics);
  for (Real** p : {&projection_, &d_norm_, &d_attention_}) layout.reserve(p, rows * width);
  if (places_.has_output())
    layout.reserve(&logits_, rows * static_cast<std::size_t>(padded_vocabulary_));
  else
    lay_out_norm(unused_norm_, layout, statistics);
  layout.reserve(&d_wide_, rows * static_cast<std::size_t>(config_.expanded_width()));
  if (llama_) layout.reserve(&d_hidden_, rows * static_cast<std::size_t>(config_.mlp_width()));
  layout.reserve(&d_qkv_, rows * static_cast<std::size_t>(config_.qkv_width()));
  activations_ = layout.allocate(compute_.memory());
  statistics_ = statistics.allocate(compute_.memory());
  if (!recompute_) return;
  const Layer first = slots_.front().layers.front();
  for (Slot& slot : slots_) {
    for (Layer& l : slot.layers) {
      Layer shared = first;
      shared.p = l.p, shared.d = l.d, shared.input = l.input;
      l = shared;
    }
  }
}

template <typename Real>
std::size_t Gpt<Real>::bytes() const noexcept {
  return tensors_.bytes() + activations_.size() * sizeof(Real) +
         (statistics_.size() + rotary_.size()) * sizeof(Sum);
}

template <typename Real>
void Gpt<Real>::norm(const Real* x, const Real* addend, Real* sum, const Pair<Real>& p, const NormResult& to,
                     int rows) {
  if (llama_) {
    return llama_->rms_norm(x, addend, sum, p.weight, to.out, to.rstd, rows, config_.width,
                            config_.llama->norm_epsilon);
  }
  compute_.layer_norm(x, addend, sum, p.weight, p.bias, to.out, to.mean, to.rstd, rows, config_.width);
}

template <typename Real>
void Gpt<Real>::norm_backward(const Real* x, const Pair<Real>& p, const NormResult& of, const Pair<Sum>& d,
                              int rows) {
  if (llama_) {
    return llama_->rms_norm_backward(x, p.weight, of.rstd, d_norm_, slot_->d_residual, d.weight, rows,
                                     config_.width);
  }
  compute_.layer_norm_backward(x, p.weight, of.mean, of.rstd, d_norm_, slot_->d_residual, d.weight, d.bias,
                               rows, config_.width);
}

template <typename Real>
void Gpt<Real>::rotate(Real* qkv, int rows, int length, bool back) {
  if (!llama_) return;
  llama_->rotate(
      {rows, length, 0, config_.heads + config_.kv_heads(), config_.head_width(), config_.qkv_width()},
      rotary_.data(), qkv, back);
}

template <typename Real>
compute::AttentionShape Gpt<Real>::attention_shape(int batch, int length) const {
  return {batch, length, config_.heads, config_.width, config_.kv_heads()};
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
  linear(l.attention, l.p.output, projection_, rows, width, width);
  norm(l.input, projection_, l.middle, l.p.mlp_norm, l.norm2, rows);
  expand(l, rows);
}

template <typename Real>
void Gpt<Real>::forward_layer(const Layer& l, const Pair<Real>& next, const NormResult& next_norm, int batch,
                              int length) {
  const int rows = batch * length;
  forward_inside(l, batch, length);
  computed_ = &l;
  linear(l.hidden, l.p.project, projection_, rows, config_.mlp_width(), config_.width);
  // The next normalization (the next layer's first or the final one) also adds the MLP's output to the
  // residual stream.
  Real* sum = &l == &layers().back() ? slot_->residual : (&l + 1)->input;
  norm(l.middle, projection_, sum, next, next_norm, rows);
}

// The normalization was computed together with a sum before; it has the same bits, since it reads the rounded
// sum.
template <typename Real>
void Gpt<Real>::recompute_layer(const Layer& l, int batch, int length) {
  norm(l.input, nullptr, nullptr, l.p.attention_norm, l.norm1, batch * length);
  forward_inside(l, batch, length);
  computed_ = &l;
}

template <typename Real>
void Gpt<Real>::embed(const Token* tokens, int batch, int length) {
  Real* const out = layers().front().input;
  if (llama_) return llama_->embed(tokens, token_table_, out, batch * length, config_.width);
  compute_.embed(tokens, token_table_, position_table_, out, batch, length, config_.width);
}

template <typename Real>
void Gpt<Real>::forward(int slot, const Token* tokens, int batch, int length) {
  slot_ = &slots_[static_cast<std::size_t>(slot)];
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
      forward_layer(l, l.p.mlp_norm, unused_norm_, batch, length);
  }
}

template <typename Real>
void Gpt<Real>::forward_output(int rows) {
  linear(slot_->final_norm.out, {output_table_}, logits_, rows, config_.width, padded_vocabulary_);
}

template <typename Real>
double Gpt<Real>::output_loss(int slot, const Token* targets, int batch, int length) {
  slot_ = &slots_[static_cast<std::size_t>(slot)];
  forward_output(batch * length);
  return compute_.cross_entropy(logits_, targets, batch * length, config_.vocabulary, Sum(0));
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
void Gpt<Real>::mlp_backward(const Layer& l, int rows, const std::function<void(LayerTensor)>& pair_ready) {
  const int width = config_.width, hidden = config_.mlp_width();
  if (llama_) {
    linear_backward(compute_, l.hidden, l.p.project.weight, slot_->d_residual, d_hidden_, l.d.project.weight,
                    nullptr, rows, hidden, width);
    llama_->swiglu_backward(l.wide, d_hidden_, d_wide_, rows, hidden);
  } else {
    compute_.matmul_gelu_backward(rows, hidden, width, slot_->d_residual, l.p.project.weight, l.wide,
                                  d_wide_);
    compute_.weight_gradient(rows, hidden, width, l.hidden, slot_->d_residual, l.d.project.weight,
                             l.d.project.bias);
  }
  pair_ready(LayerTensor::project);
  linear_backward(compute_, l.norm2.out, l.p.expand.weight, d_wide_, d_norm_, l.d.expand.weight,
                  l.d.expand.bias, rows, width, config_.expanded_width());
  pair_ready(LayerTensor::expand);
}

template <typename Real>
void Gpt<Real>::backward_layer(std::size_t index, int batch, int length, const Ready& ready) {
  const Layer& l = layers()[index];
  const int rows = batch * length, width = config_.width;
  const auto pair_ready = [&](LayerTensor tensor) {
    const std::size_t place = places_.of(index, tensor);
    if (places_.has_biases()) ready(place + 1);
    ready(place);
  };
  mlp_backward(l, rows, pair_ready);
  norm_backward(l.middle, l.p.mlp_norm, l.norm2, l.d.mlp_norm, rows);
  pair_ready(LayerTensor::mlp_gain);
  linear_backward(compute_, l.attention, l.p.output.weight, slot_->d_residual, d_attention_,
                  l.d.output.weight, l.d.output.bias, rows, width, width);
  pair_ready(LayerTensor::output);
  compute_.attention_backward(attention_shape(batch, length), l.qkv, l.attention, l.log_sum, d_attention_,
                              d_qkv_);
  rotate(d_qkv_, rows, length, true);
  linear_backward(compute_, l.norm1.out, l.p.qkv.weight, d_qkv_, d_norm_, l.d.qkv.weight, l.d.qkv.bias, rows,
                  width, config_.qkv_width());
  pair_ready(LayerTensor::qkv);
  norm_backward(l.input, l.p.attention_norm, l.norm1, l.d.attention_norm, rows);
  pair_ready(LayerTensor::attention_gain);
}

template <typename Real>
void Gpt<Real>::embed_backward(const Token* tokens, int batch, int length) {
  if (!llama_) {
    return compute_.embed_backward(tokens, slot_->d_residual, d_token_table_, d_position_table_, batch,
                                   length, config_.context, config_.width);
  }
  if (!config_.has_tied_output()) {
    llama_->clear(d_token_table_,
                  static_cast<std::size_t>(config_.vocabulary) * static_cast<std::size_t>(config_.width));
  }
  llama_->embed_backward(tokens, slot_->d_residual, d_token_table_, batch * length, config_.width);
}

template <typename Real>
void Gpt<Real>::backward_output(const Token* targets, int rows, Sum gradient_scale, const Ready& ready) {
  forward_output(rows);
  compute_.compute_cross_entropy(logits_, targets, rows, config_.vocabulary, gradient_scale);
  // A tied table's gradient: the output layer's share overwrites, the embedding's is added later.
  linear_backward(compute_, slot_->final_norm.out, output_table_, logits_, d_norm_, d_output_table_, nullptr,
                  rows, config_.width, padded_vocabulary_);
  compute_.fill_zero(slot_->d_residual, static_cast<std::size_t>(rows) * config_.width);
  norm_backward(slot_->residual, final_gain_, slot_->final_norm, d_final_gain_, rows);
  for (std::size_t i = tensors_.table().tensors.size(); i-- > places_.final_gain();) ready(i);
}

template <typename Real>
void Gpt<Real>::backward(int slot, const Token* tokens, const Token* targets, int batch, int length,
                         Sum gradient_scale, const Ready& ready) {
  slot_ = &slots_[static_cast<std::size_t>(slot)];
  if (places_.has_output()) backward_output(targets, batch * length, gradient_scale, ready);
  for (std::size_t i = layers().size(); i-- > 0;) {
    // A forward pass left the activations of its last layer.
    if (recompute_ && computed_ != &layers()[i]) recompute_layer(layers()[i], batch, length);
    backward_layer(i, batch, length, ready);
  }
  if (!places_.has_embeddings()) return;
  embed_backward(tokens, batch, length);
  for (std::size_t i = places_.of(0, LayerTensor::attention_gain); i-- > 0;) ready(i);
}

template class Gpt<float>;
template class Gpt<double>;
template class Gpt<bfloat16>;

}  // namespace muster::models
