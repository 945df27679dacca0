// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_decoder.hpp"

#include <algorithm>
#include <type_traits>

#include "models/rotary_table.hpp"

namespace muster::models {
namespace {

/// Rows that are computed together. Fixed, since the order of a product's sums may depend on it.
constexpr int rows_at_once = 128;
/// Up to so many rows, a product that reads each weight once beats one that packs them first.
constexpr int few_rows = 8;

}  // namespace

template <typename Real>
GptDecoder<Real>::GptDecoder(const GptConfig& config, compute::cpu::CpuCompute<Real>& compute,
                             const std::function<void(std::span<float>)>& read)
    : config_(config),
      places_(config),
      table_(gpt_tensors(config)),
      compute_(compute),
      parameters_(table_.arena_size),
      rotary_(rotary_table<Sum>(config)) {
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
    layout.reserve(cache, static_cast<std::size_t>(config_.layers) * context *
                              static_cast<std::size_t>(config_.kv_width()));
  for (Real** p : {&residual_, &sum_, &norm_, &queries_, &attention_, &projection_})
    layout.reserve(p, rows * width);
  layout.reserve(&qkv_, rows * static_cast<std::size_t>(config_.qkv_width()));
  layout.reserve(&wide_, rows * static_cast<std::size_t>(config_.expanded_width()));
  layout.reserve(&hidden_, rows * static_cast<std::size_t>(config_.mlp_width()));
  layout.reserve(&logits_, static_cast<std::size_t>(config_.vocabulary));
  activations_ = layout.allocate(compute::host_memory());
  statistics_ = compute::Arena<Sum>(2 * rows);
}

template <typename Real>
void GptDecoder<Real>::project(const Real* x, std::size_t tensor, Real* out, int rows, int from, int to) {
  const Real* const bias = places_.has_biases() ? weight(tensor + 1) : nullptr;
  if (rows <= few_rows) return compute_.project(x, rows, weight(tensor), bias, out, from, to);
  compute_.matmul({rows, to, from, false, true, bias != nullptr, false}, x, weight(tensor), bias, out);
}

template <typename Real>
void GptDecoder<Real>::norm(const Real* x, const Real* addend, Real* sum, std::size_t gain, int rows) {
  const int width = config_.width;
  Sum *rstd = statistics_.data(), *mean = rstd + rows;
  if (config_.llama) {
    return compute_.llama()->rms_norm(x, addend, sum, weight(gain), norm_, rstd, rows, width,
                                      config_.llama->norm_epsilon);
  }
  compute_.layer_norm(x, addend, sum, weight(gain), weight(gain + 1), norm_, mean, rstd, rows, width);
}

template <typename Real>
void GptDecoder<Real>::cache_rows(int layer, int rows) {
  const int width = config_.width, kv_width = config_.kv_width(), head_width = config_.head_width(),
            context = config_.context;
  const std::ptrdiff_t layer_size = std::ptrdiff_t{kv_width} * context,
                       head_size = std::ptrdiff_t{head_width} * context;
  for (int row = 0; row < rows; ++row) {
    const Real* from = qkv_ + std::ptrdiff_t{row} * config_.qkv_width();
    std::copy_n(from, width, queries_ + std::ptrdiff_t{row} * width);
    for (int head = 0; head < config_.kv_heads(); ++head) {
      const std::ptrdiff_t at = layer * layer_size + head * head_size;
      const Real *key = from + width + head * head_width, *value = key + kv_width;
      for (int d = 0; d < head_width; ++d) keys_[at + std::ptrdiff_t{d} * context + length_ + row] = key[d];
      std::copy_n(value, head_width, values_ + at + std::ptrdiff_t{length_ + row} * head_width);
    }
  }
}

template <typename Real>
void GptDecoder<Real>::activate(int rows) {
  if (config_.llama) return compute_.llama()->swiglu(wide_, hidden_, rows, config_.mlp_width());
  compute_.gelu(wide_, hidden_,
                static_cast<std::size_t>(rows) * static_cast<std::size_t>(config_.mlp_width()));
}

template <typename Real>
void GptDecoder<Real>::read_layer(int layer, int rows) {
  const int width = config_.width, head_width = config_.head_width(), kv_heads = config_.kv_heads();
  const std::ptrdiff_t cache = layer * std::ptrdiff_t{config_.kv_width()} * config_.context;
  const auto of = [&](LayerTensor tensor) { return places_.of(static_cast<std::size_t>(layer), tensor); };
  norm(residual_, nullptr, nullptr, of(LayerTensor::attention_gain), rows);
  project(norm_, of(LayerTensor::qkv), qkv_, rows, width, config_.qkv_width());
  if (config_.llama) {
    compute_.llama()->rotate({rows, rows, length_, config_.heads + kv_heads, head_width, config_.qkv_width()},
                             rotary_.data(), qkv_, false);
  }
  cache_rows(layer, rows);
  compute_.cached_attention({config_.heads, kv_heads, head_width, config_.context}, length_, rows, queries_,
                            keys_ + cache, values_ + cache, attention_);
  project(attention_, of(LayerTensor::output), projection_, rows, width, width);
  norm(residual_, projection_, sum_, of(LayerTensor::mlp_gain), rows);
  project(norm_, of(LayerTensor::expand), wide_, rows, width, config_.expanded_width());
  activate(rows);
  project(hidden_, of(LayerTensor::project), projection_, rows, config_.mlp_width(), width);
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{rows} * width; ++i)
    residual_[i] = Real(Sum(sum_[i]) + Sum(projection_[i]));
}

template <typename Real>
void GptDecoder<Real>::read_rows(std::span<const compute::Token> tokens) {
  const int rows = static_cast<int>(tokens.size()), width = config_.width;
  const Real* const table = weight(places_.token_embedding());
  if (config_.llama) {
    compute_.llama()->embed(tokens.data(), table, residual_, rows, width);
  } else {
    const Real* const positions = weight(places_.position_embedding()) + std::ptrdiff_t{length_} * width;
    compute_.embed(tokens.data(), table, positions, residual_, 1, rows, width);
  }
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
  const int width = config_.width;
  norm(residual_ + std::ptrdiff_t{rows - 1} * width, nullptr, nullptr, places_.final_gain(), 1);
  compute_.project(norm_, 1, weight(places_.output_layer()), nullptr, logits_, width, config_.vocabulary);
  return {logits_, static_cast<std::size_t>(config_.vocabulary)};
}

template class GptDecoder<float>;
template class GptDecoder<double>;
template class GptDecoder<bfloat16>;

}  // namespace muster::models
