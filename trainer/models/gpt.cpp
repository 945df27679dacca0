// SPDX-License-Identifier: Apache-2.0
#include "models/gpt.hpp"

#include "models/linear.hpp"

namespace muster::models {
template <typename Real>
Gpt<Real>::Gpt(const GptConfig& config, int max_batch, compute::Compute<Real>& compute, std::size_t extra,
               bool recompute)
    : config_(config),
      tensors_(gpt_tensors(config), extra, std::is_same_v<Real, bfloat16>, compute.memory()),
      max_batch_(max_batch),
      compute_(compute),
      padded_vocabulary_(compute.padded_classes(config.vocabulary)),
      recompute_(recompute),
      layers_(static_cast<std::size_t>(config.layers)) {
  find_tensors();
  lay_out_activations();
}

template <typename Real>
void Gpt<Real>::find_tensors() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::size_t first = tensors_before_layers + i * tensors_per_layer;
    const auto weights = layers_[i].p.all();
    const auto gradients = layers_[i].d.all();
    for (std::size_t j = 0; j < weights.size(); ++j) {
      *weights[j] = tensors_.template weight<Real>(first + j);
      *gradients[j] = tensors_.gradient(first + j);
    }
  }
  const std::size_t last = tensors_before_layers + layers_.size() * tensors_per_layer;
  token_table_ = tensors_.template weight<Real>(0), d_token_table_ = tensors_.gradient(0);
  position_table_ = tensors_.template weight<Real>(1), d_position_table_ = tensors_.gradient(1);
  final_gain_ = tensors_.template weight<Real>(last), d_final_gain_ = tensors_.gradient(last);
  final_bias_ = tensors_.template weight<Real>(last + 1), d_final_bias_ = tensors_.gradient(last + 1);
}

template <typename Real>
void Gpt<Real>::lay_out_activations() {
  const std::size_t rows = static_cast<std::size_t>(max_batch_) * config_.context;
  const std::size_t width = static_cast<std::size_t>(config_.width);
  Layout<Real> layout;
  Layout<Sum> statistics;
  for (Layer& l : layers_) {
    layout.reserve(&l.input, rows * width);
    if (recompute_ && &l != &layers_.front()) continue;  // they share the first layer's memory
    for (Real** p : {&l.norm1, &l.attention, &l.middle, &l.norm2}) layout.reserve(p, rows * width);
    for (Sum** p : {&l.mean1, &l.rstd1, &l.mean2, &l.rstd2}) statistics.reserve(p, rows);
    for (Real** p : {&l.wide, &l.gelu}) layout.reserve(p, rows * 4 * width);
    layout.reserve(&l.qkv, rows * 3 * width);
    statistics.reserve(&l.log_sum, rows * static_cast<std::size_t>(config_.heads));
  }
  for (Real** p : {&residual_, &final_norm_, &projection_, &d_residual_, &d_norm_, &d_attention_}) {
    layout.reserve(p, rows * width);
  }
  for (Sum** p : {&final_mean_, &final_rstd_}) statistics.reserve(p, rows);
  layout.reserve(&logits_, rows * static_cast<std::size_t>(padded_vocabulary_));
  layout.reserve(&d_wide_, rows * 4 * width);
  layout.reserve(&d_qkv_, rows * 3 * width);
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
  return tensors_.bytes() + activations_.size() * sizeof(Real) + statistics_.size() * sizeof(Sum);
}

template <typename Real>
void Gpt<Real>::forward_inside(const Layer& l, int batch, int length) {
  const int rows = batch * length, width = config_.width;
  compute_.matmul({rows, 3 * width, width, false, true, true, false}, l.norm1, l.p.qkv, l.p.qkv_bias, l.qkv);
  compute_.attention({batch, length, config_.heads, width}, l.qkv, l.attention, l.log_sum);
  compute_.matmul({rows, width, width, false, true, true, false}, l.attention, l.p.output, l.p.output_bias,
                  projection_);
  compute_.layer_norm(l.input, projection_, l.middle, l.p.mlp_gain, l.p.mlp_bias, l.norm2, l.mean2, l.rstd2,
                      rows, width);
  compute_.matmul_gelu(rows, width, 4 * width, l.norm2, l.p.expand, l.p.expand_bias, l.wide, l.gelu);
}

template <typename Real>
void Gpt<Real>::forward_layer(const Layer& l, const Real* next_gain, const Real* next_bias, Real* next_norm,
                              Sum* next_mean, Sum* next_rstd, int batch, int length) {
  const int rows = batch * length, width = config_.width;
  forward_inside(l, batch, length);
  compute_.matmul({rows, width, 4 * width, false, true, true, false}, l.gelu, l.p.project, l.p.project_bias,
                  projection_);
  // The next normalization (the next layer's first or the final one) also adds the MLP's output to the
  // residual stream.
  Real* sum = &l == &layers_.back() ? residual_ : (&l + 1)->input;
  compute_.layer_norm(l.middle, projection_, sum, next_gain, next_bias, next_norm, next_mean, next_rstd, rows,
                      width);
}

// The normalization was computed together with a sum before; it has the same bits, since it reads the rounded
// sum.
template <typename Real>
void Gpt<Real>::recompute_layer(const Layer& l, int batch, int length) {
  compute_.layer_norm(l.input, nullptr, nullptr, l.p.attention_gain, l.p.attention_bias, l.norm1, l.mean1,
                      l.rstd1, batch * length, config_.width);
  forward_inside(l, batch, length);
}

template <typename Real>
void Gpt<Real>::forward(const Token* tokens, int batch, int length) {
  const int rows = batch * length, width = config_.width;
  const Layer& first = layers_.front();
  compute_.embed(tokens, token_table_, position_table_, first.input, batch, length, width);
  compute_.layer_norm(first.input, nullptr, nullptr, first.p.attention_gain, first.p.attention_bias,
                      first.norm1, first.mean1, first.rstd1, rows, width);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (i + 1 < layers_.size()) {
      const Layer& next = layers_[i + 1];
      forward_layer(layers_[i], next.p.attention_gain, next.p.attention_bias, next.norm1, next.mean1,
                    next.rstd1, batch, length);
    } else {
      forward_layer(layers_[i], final_gain_, final_bias_, final_norm_, final_mean_, final_rstd_, batch,
                    length);
    }
  }
  compute_.matmul({rows, padded_vocabulary_, width, false, true, false, false}, final_norm_, token_table_,
                  nullptr, logits_);
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
void Gpt<Real>::backward_layer(std::size_t index, int batch, int length, const Ready& ready) {
  const Layer& l = layers_[index];
  const int rows = batch * length, width = config_.width;
  const std::size_t first = tensors_before_layers + index * tensors_per_layer;
  // A weight or gain and its bias, from the layer's last pair to its first.
  const auto pair_ready = [&](std::size_t pair) {
    ready(first + 2 * pair + 1);
    ready(first + 2 * pair);
  };
  compute_.matmul_gelu_backward(rows, 4 * width, width, d_residual_, l.p.project, l.wide, d_wide_);
  compute_.weight_gradient(rows, 4 * width, width, l.gelu, d_residual_, l.d.project, l.d.project_bias);
  pair_ready(5);
  linear_backward(compute_, l.norm2, l.p.expand, d_wide_, d_norm_, l.d.expand, l.d.expand_bias, rows, width,
                  4 * width);
  pair_ready(4);
  compute_.layer_norm_backward(l.middle, l.p.mlp_gain, l.mean2, l.rstd2, d_norm_, d_residual_, l.d.mlp_gain,
                               l.d.mlp_bias, rows, width);
  pair_ready(3);
  linear_backward(compute_, l.attention, l.p.output, d_residual_, d_attention_, l.d.output, l.d.output_bias,
                  rows, width, width);
  pair_ready(2);
  compute_.attention_backward({batch, length, config_.heads, width}, l.qkv, l.attention, l.log_sum,
                              d_attention_, d_qkv_);
  linear_backward(compute_, l.norm1, l.p.qkv, d_qkv_, d_norm_, l.d.qkv, l.d.qkv_bias, rows, width, 3 * width);
  pair_ready(1);
  compute_.layer_norm_backward(l.input, l.p.attention_gain, l.mean1, l.rstd1, d_norm_, d_residual_,
                               l.d.attention_gain, l.d.attention_bias, rows, width);
  pair_ready(0);
}

template <typename Real>
void Gpt<Real>::backward(const Token* tokens, int batch, int length, const Ready& ready) {
  const int rows = batch * length, width = config_.width;
  // The tied table's gradient: the output layer's share overwrites, the embedding's is added below.
  linear_backward(compute_, final_norm_, token_table_, logits_, d_norm_, d_token_table_, nullptr, rows, width,
                  padded_vocabulary_);
  compute_.fill_zero(d_residual_, static_cast<std::size_t>(rows) * width);
  compute_.layer_norm_backward(residual_, final_gain_, final_mean_, final_rstd_, d_norm_, d_residual_,
                               d_final_gain_, d_final_bias_, rows, width);
  const std::size_t tensors = tensors_.table().tensors.size();
  ready(tensors - 1);
  ready(tensors - 2);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    // The forward pass left the last layer's activations.
    if (recompute_ && i + 1 < layers_.size()) recompute_layer(layers_[i], batch, length);
    backward_layer(i, batch, length, ready);
  }
  compute_.embed_backward(tokens, d_residual_, d_token_table_, d_position_table_, batch, length,
                          config_.context, width);
  ready(1);
  ready(0);
}

template class Gpt<float>;
template class Gpt<double>;
template class Gpt<bfloat16>;

}  // namespace muster::models
