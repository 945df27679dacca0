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
Gpt<Real>::Gpt(const GptConfig& config, int max_batch, compute::Compute<Real>& compute, std::size_t extra,
               bool recompute)
    : config_(config),
      places_(config),
      tensors_(gpt_tensors(config), extra, std::is_same_v<Real, bfloat16>, compute.memory(),
               &compute.parameter_memory()),
      max_batch_(max_batch),
      compute_(compute),
      llama_(llama_compute(config, compute)),
      padded_vocabulary_(compute.padded_classes(config.vocabulary)),
      recompute_(recompute),
      rotary_(rotary_table<Sum>(config, compute.memory())),
      layers_(static_cast<std::size_t>(config.layers)) {
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
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto weights = layers_[i].p.all();
    const auto gradients = layers_[i].d.all();
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const std::size_t place = places_.of(i, static_cast<LayerTensor>(j));
      *weights[j] = find_weight(place);
      *gradients[j] = find_gradient(place);
    }
  }
  token_table_ = find_weight(places_.token_embedding()).weight;
  d_token_table_ = find_gradient(places_.token_embedding()).weight;
  output_table_ = find_weight(places_.output_layer()).weight;
  d_output_table_ = find_gradient(places_.output_layer()).weight;
  final_gain_ = find_weight(places_.final_gain());
  d_final_gain_ = find_gradient(places_.final_gain());
  if (llama_) return;
  position_table_ = tensors_.template weight<Real>(places_.position_embedding());
  d_position_table_ = tensors_.gradient(places_.position_embedding());
}

template <typename Real>
void Gpt<Real>::lay_out_activations() {
  const std::size_t rows = static_cast<std::size_t>(max_batch_) * config_.context;
  const auto width = static_cast<std::size_t>(config_.width),
             qkv_width = static_cast<std::size_t>(config_.qkv_width()),
             expanded = static_cast<std::size_t>(config_.expanded_width()),
             hidden = static_cast<std::size_t>(config_.mlp_width());
  Layout<Real> layout;
  Layout<Sum> statistics;
  const auto reserve_norm = [&](NormResult& norm) {
    layout.reserve(&norm.out, rows * width);
    if (!llama_) statistics.reserve(&norm.mean, rows);
    statistics.reserve(&norm.rstd, rows);
  };
  for (Layer& l : layers_) {
    layout.reserve(&l.input, rows * width);
    if (recompute_ && &l != &layers_.front()) continue;  // they share the first layer's memory
    for (NormResult* norm : {&l.norm1, &l.norm2}) reserve_norm(*norm);
    for (Real** p : {&l.attention, &l.middle}) layout.reserve(p, rows * width);
    layout.reserve(&l.wide, rows * expanded);
    layout.reserve(&l.hidden, rows * hidden);
    layout.reserve(&l.qkv, rows * qkv_width);
    statistics.reserve(&l.log_sum, rows * static_cast<std::size_t>(config_.heads));
  }
  reserve_norm(final_norm_);
  for (Real** p : {&residual_, &projection_, &d_residual_, &d_norm_, &d_attention_})
    layout.reserve(p, rows * width);
  layout.reserve(&logits_, rows * static_cast<std::size_t>(padded_vocabulary_));
  layout.reserve(&d_wide_, rows * expanded);
  if (llama_) layout.reserve(&d_hidden_, rows * hidden);
  layout.reserve(&d_qkv_, rows * qkv_width);
  activations_ = layout.allocate(compute_.memory());
  statistics_ = statistics.allocate(compute_.memory());
  if (!recompute_) return;
  for (Layer& l : layers_) {
    Layer shared = layers_.front();
    shared.p = l.p, shared.d = l.d, shared.input = l.input;
    l = shared;
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
    return llama_->rms_norm_backward(x, p.weight, of.rstd, d_norm_, d_residual_, d.weight, rows,
                                     config_.width);
  }
  compute_.layer_norm_backward(x, p.weight, of.mean, of.rstd, d_norm_, d_residual_, d.weight, d.bias, rows,
                               config_.width);
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
  linear(l.hidden, l.p.project, projection_, rows, config_.mlp_width(), config_.width);
  // The next normalization (the next layer's first or the final one) also adds the MLP's output to the
  // residual stream.
  Real* sum = &l == &layers_.back() ? residual_ : (&l + 1)->input;
  norm(l.middle, projection_, sum, next, next_norm, rows);
}

// The normalization was computed together with a sum before; it has the same bits, since it reads the rounded
// sum.
template <typename Real>
void Gpt<Real>::recompute_layer(const Layer& l, int batch, int length) {
  norm(l.input, nullptr, nullptr, l.p.attention_norm, l.norm1, batch * length);
  forward_inside(l, batch, length);
}

template <typename Real>
void Gpt<Real>::embed(const Token* tokens, int batch, int length) {
  Real* const out = layers_.front().input;
  if (llama_) return llama_->embed(tokens, token_table_, out, batch * length, config_.width);
  compute_.embed(tokens, token_table_, position_table_, out, batch, length, config_.width);
}

template <typename Real>
void Gpt<Real>::forward(const Token* tokens, int batch, int length) {
  const int rows = batch * length, width = config_.width;
  const Layer& first = layers_.front();
  embed(tokens, batch, length);
  norm(first.input, nullptr, nullptr, first.p.attention_norm, first.norm1, rows);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (i + 1 < layers_.size())
      forward_layer(layers_[i], layers_[i + 1].p.attention_norm, layers_[i + 1].norm1, batch, length);
    else
      forward_layer(layers_[i], final_gain_, final_norm_, batch, length);
  }
  linear(final_norm_.out, {output_table_}, logits_, rows, width, padded_vocabulary_);
}

template <typename Real>
double Gpt<Real>::loss(const Token* tokens, const Token* targets, int batch, int length) {
  forward(tokens, batch, length);
  return compute_.cross_entropy(logits_, targets, batch * length, config_.vocabulary, Sum(0));
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
  forward(tokens, batch, length);
  compute_.compute_cross_entropy(logits_, targets, batch * length, config_.vocabulary, gradient_scale);
  backward(tokens, batch, length, ready);
}

template <typename Real>
void Gpt<Real>::mlp_backward(const Layer& l, int rows, const std::function<void(LayerTensor)>& pair_ready) {
  const int width = config_.width, hidden = config_.mlp_width();
  if (llama_) {
    linear_backward(compute_, l.hidden, l.p.project.weight, d_residual_, d_hidden_, l.d.project.weight,
                    nullptr, rows, hidden, width);
    llama_->swiglu_backward(l.wide, d_hidden_, d_wide_, rows, hidden);
  } else {
    compute_.matmul_gelu_backward(rows, hidden, width, d_residual_, l.p.project.weight, l.wide, d_wide_);
    compute_.weight_gradient(rows, hidden, width, l.hidden, d_residual_, l.d.project.weight,
                             l.d.project.bias);
  }
  pair_ready(LayerTensor::project);
  linear_backward(compute_, l.norm2.out, l.p.expand.weight, d_wide_, d_norm_, l.d.expand.weight,
                  l.d.expand.bias, rows, width, config_.expanded_width());
  pair_ready(LayerTensor::expand);
}

template <typename Real>
void Gpt<Real>::backward_layer(std::size_t index, int batch, int length, const Ready& ready) {
  const Layer& l = layers_[index];
  const int rows = batch * length, width = config_.width;
  const auto pair_ready = [&](LayerTensor tensor) {
    const std::size_t place = places_.of(index, tensor);
    if (places_.has_biases()) ready(place + 1);
    ready(place);
  };
  mlp_backward(l, rows, pair_ready);
  norm_backward(l.middle, l.p.mlp_norm, l.norm2, l.d.mlp_norm, rows);
  pair_ready(LayerTensor::mlp_gain);
  linear_backward(compute_, l.attention, l.p.output.weight, d_residual_, d_attention_, l.d.output.weight,
                  l.d.output.bias, rows, width, width);
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
    return compute_.embed_backward(tokens, d_residual_, d_token_table_, d_position_table_, batch, length,
                                   config_.context, config_.width);
  }
  if (d_output_table_ != d_token_table_) {
    llama_->clear(d_token_table_,
                  static_cast<std::size_t>(config_.vocabulary) * static_cast<std::size_t>(config_.width));
  }
  llama_->embed_backward(tokens, d_residual_, d_token_table_, batch * length, config_.width);
}

template <typename Real>
void Gpt<Real>::backward(const Token* tokens, int batch, int length, const Ready& ready) {
  const int rows = batch * length, width = config_.width;
  // A tied table's gradient: the output layer's share overwrites, the embedding's is added below.
  linear_backward(compute_, final_norm_.out, output_table_, logits_, d_norm_, d_output_table_, nullptr, rows,
                  width, padded_vocabulary_);
  compute_.fill_zero(d_residual_, static_cast<std::size_t>(rows) * width);
  norm_backward(residual_, final_gain_, final_norm_, d_final_gain_, rows);
  for (std::size_t i = tensors_.table().tensors.size(); i-- > places_.final_gain();) ready(i);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    // The forward pass left the last layer's activations.
    if (recompute_ && i + 1 < layers_.size()) recompute_layer(layers_[i], batch, length);
    backward_layer(i, batch, length, ready);
  }
  embed_backward(tokens, batch, length);
  for (std::size_t i = places_.of(0, LayerTensor::attention_gain); i-- > 0;) ready(i);
}

template class Gpt<float>;
template class Gpt<double>;
template class Gpt<bfloat16>;

}  // namespace muster::models
