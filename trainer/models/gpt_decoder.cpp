// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_decoder.hpp"

#include <algorithm>
#include <type_traits>

namespace muster::models {
namespace {

/// Rows that are computed together. Fixed, since the order of a product's sums may depend on it.
constexpr int rows_at_once = 128;
/// Up to so many rows, a product that reads each weight once beats one that packs them first.
constexpr int few_rows = 8;

/// A layer's tensors, by their place in gpt_tensors().
enum LayerTensor : std::size_t {
  attention_gain,
  attention_bias,
  qkv,
  qkv_bias,
  output,
  output_bias,
  mlp_gain,
  mlp_bias,
  expand,
  expand_bias,
  shrink,
  shrink_bias
};

std::size_t tensor_of(int layer, LayerTensor kind) {
  return tensors_before_layers + static_cast<std::size_t>(layer) * tensors_per_layer + kind;
}

}  // namespace

template <typename Real>
GptDecoder<Real>::GptDecoder(const GptConfig& config, compute::cpu::CpuCompute<Real>& compute,
                             const std::function<void(std::span<float>)>& read)
    : config_(config), table_(gpt_tensors(config)), compute_(compute), parameters_(table_.arena_size) {
  if constexpr (std::is_same_v<Real, float>) {
    read(parameters_.span());
  } else {
    compute::Arena<float> stored(table_.arena_size);
    read(stored.span());
    if constexpr (std::is_same_v<Real, bfloat16>)
      compute_.round(stored.data(), parameters_.data(), stored.size());
    else
      std::copy_n(stored.data(), stored.size(), parameters_.data());
  }
  lay_out();
}

template <typename Real>
void GptDecoder<Real>::lay_out() {
  const auto width = static_cast<std::size_t>(config_.width),
             context = static_cast<std::size_t>(config_.context),
             rows = std::min<std::size_t>(rows_at_once, context);
  Layout<Real> layout;
  for (Real** cache : {&keys_, &values_})
    layout.reserve(cache, static_cast<std::size_t>(config_.layers) * context * width);
  for (Real** p : {&residual_, &sum_, &norm_, &queries_, &attention_, &projection_})
    layout.reserve(p, rows * width);
  layout.reserve(&qkv_, rows * 3 * width);
  for (Real** p : {&wide_, &gelu_}) layout.reserve(p, rows * 4 * width);
  layout.reserve(&logits_, static_cast<std::size_t>(config_.vocabulary));
  activations_ = layout.allocate(compute::host_memory());
  statistics_ = compute::Arena<Sum>(2 * rows);
}

template <typename Real>
void GptDecoder<Real>::project(const Real* x, std::size_t tensor, Real* out, int rows, int from, int to) {
  const Real* const bias = weight(tensor + 1);
  if (rows <= few_rows) return compute_.project(x, rows, weight(tensor), bias, out, from, to);
  compute_.matmul({rows, to, from, false, true, true, false}, x, weight(tensor), bias, out);
}

template <typename Real>
void GptDecoder<Real>::cache_rows(int layer, int rows) {
  const int width = config_.width, heads = config_.heads, head_width = width / heads,
            context = config_.context;
  const std::ptrdiff_t layer_size = std::ptrdiff_t{width} * context,
                       head_size = std::ptrdiff_t{head_width} * context;
  for (int row = 0; row < rows; ++row) {
    const Real* from = qkv_ + std::ptrdiff_t{row} * 3 * width;
    std::copy_n(from, width, queries_ + std::ptrdiff_t{row} * width);
    for (int head = 0; head < heads; ++head) {
      const std::ptrdiff_t at = layer * layer_size + head * head_size;
      const Real *key = from + width + head * head_width, *value = key + width;
      for (int d = 0; d < head_width; ++d) keys_[at + std::ptrdiff_t{d} * context + length_ + row] = key[d];
      std::copy_n(value, head_width, values_ + at + std::ptrdiff_t{length_ + row} * head_width);
    }
  }
}

template <typename Real>
void GptDecoder<Real>::read_layer(int layer, int rows) {
  const int width = config_.width, head_width = width / config_.heads;
  const std::ptrdiff_t cache = layer * std::ptrdiff_t{width} * config_.context;
  const auto of = [&](LayerTensor kind) { return tensor_of(layer, kind); };
  Sum *mean = statistics_.data(), *rstd = mean + rows;
  compute_.layer_norm(residual_, nullptr, nullptr, weight(of(attention_gain)), weight(of(attention_bias)),
                      norm_, mean, rstd, rows, width);
  project(norm_, of(qkv), qkv_, rows, width, 3 * width);
  cache_rows(layer, rows);
  compute_.cached_attention({config_.heads, config_.heads, head_width, config_.context}, length_, rows,
                            queries_, keys_ + cache, values_ + cache, attention_);
  project(attention_, of(output), projection_, rows, width, width);
  compute_.layer_norm(residual_, projection_, sum_, weight(of(mlp_gain)), weight(of(mlp_bias)), norm_, mean,
                      rstd, rows, width);
  project(norm_, of(expand), wide_, rows, width, 4 * width);
  compute_.gelu(wide_, gelu_, static_cast<std::size_t>(rows) * 4 * width);
  project(gelu_, of(shrink), projection_, rows, 4 * width, width);
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{rows} * width; ++i)
    residual_[i] = Real(Sum(sum_[i]) + Sum(projection_[i]));
}

template <typename Real>
void GptDecoder<Real>::read_rows(std::span<const compute::Token> tokens) {
  const int rows = static_cast<int>(tokens.size()), width = config_.width;
  compute_.embed(tokens.data(), weight(0), weight(1) + std::ptrdiff_t{length_} * width, residual_, 1, rows,
                 width);
  for (int layer = 0; layer < config_.layers; ++layer) read_layer(layer, rows);
  length_ += rows;
}

template <typename Real>
std::span<const Real> GptDecoder<Real>::read(std::span<const compute::Token> tokens) {
  int rows = 0;
  while (!tokens.empty()) {
    rows = static_cast<int>(std::min<std::size_t>(tokens.size(), rows_at_once));
    read_rows(tokens.first(static_cast<std::size_t>(rows)));
    tokens = tokens.subspan(static_cast<std::size_t>(rows));
  }
  const std::size_t last =
      tensors_before_layers + static_cast<std::size_t>(config_.layers) * tensors_per_layer;
  const int width = config_.width;
  compute_.layer_norm(residual_ + std::ptrdiff_t{rows - 1} * width, nullptr, nullptr, weight(last),
                      weight(last + 1), norm_, statistics_.data(), statistics_.data() + 1, 1, width);
  compute_.project(norm_, 1, weight(0), nullptr, logits_, width, config_.vocabulary);
  return {logits_, static_cast<std::size_t>(config_.vocabulary)};
}

template class GptDecoder<float>;
template class GptDecoder<double>;
template class GptDecoder<bfloat16>;

}  // namespace muster::models
