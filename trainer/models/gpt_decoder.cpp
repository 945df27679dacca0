// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_decoder.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "models/rotary_table.hpp"
#include "muster/error.hpp"

namespace muster::models {
namespace {

/// Floats that go to another device at a time, to be rounded there.
constexpr std::size_t floats_at_once = 1 << 24;

template <typename Real>
compute::DecodeCompute<Real>& find_decode(compute::Compute<Real>& compute) {
  if (compute.decode() != nullptr) return *compute.decode();
  throw Error(ErrorCode::usage, "this device generates no text: pass --device=cpu");
}

}  // namespace

template <typename Real>
GptDecoder<Real>::GptDecoder(const GptConfig& config, compute::Compute<Real>& compute,
                             const std::function<void(std::span<float>)>& read)
    : config_(config),
      places_(config),
      table_(gpt_tensors(config)),
      compute_(compute),
      decode_(find_decode(compute)),
      parameters_(table_.arena_size, compute.memory()),
      rotary_(rotary_table<Sum>(config, compute.memory())) {
  read_parameters(read);
  lay_out();
}

template <typename Real>
void GptDecoder<Real>::read_parameters(const std::function<void(std::span<float>)>& read) {
  if constexpr (std::is_same_v<Real, float>) {
    read(parameters_.span());
  } else {
    compute::Arena<float> stored(table_.arena_size);
    read(stored.span());
    if constexpr (std::is_same_v<Real, bfloat16>) {
      compute::Memory& memory = compute_.memory();
      if (memory.is_host()) return compute_.round(stored.data(), parameters_.data(), stored.size());
      compute::Arena<float> part(std::min(stored.size(), floats_at_once), memory);
      for (std::size_t at = 0; at < stored.size(); at += part.size()) {
        const std::size_t count = std::min(part.size(), stored.size() - at);
        memory.copy_in(part.data(), stored.data() + at, count * sizeof(float));
        compute_.round(part.data(), parameters_.data() + at, count);
      }
    } else {
      std::copy_n(stored.data(), stored.size(), parameters_.data());
    }
  }
}

template <typename Real>
compute::CacheShape GptDecoder<Real>::cache_shape() const {
  return {config_.heads, config_.kv_heads(), config_.head_width(), config_.context};
}

template <typename Real>
void GptDecoder<Real>::lay_out() {
  const auto width = static_cast<std::size_t>(config_.width),
             context = static_cast<std::size_t>(config_.context),
             rows = std::min<std::size_t>(decoder_rows, context);
  Layout<Real> layout;
  for (Real** cache : {&keys_, &values_})
    layout.reserve(cache, static_cast<std::size_t>(config_.layers) * context *
                              static_cast<std::size_t>(config_.kv_width()));
  for (Real** p : {&norm_, &attention_, &projection_}) layout.reserve(p, rows * width);
  layout.reserve(&qkv_, rows * static_cast<std::size_t>(config_.qkv_width()));
  layout.reserve(&wide_, rows * static_cast<std::size_t>(config_.expanded_width()));
  layout.reserve(&hidden_, rows * static_cast<std::size_t>(config_.mlp_width()));
  layout.reserve(&logits_, static_cast<std::size_t>(compute_.padded_classes(config_.vocabulary)));
  activations_ = layout.allocate(compute_.memory());
  Layout<Sum> accurate;
  for (Sum** p : {&residual_, &sum_}) accurate.reserve(p, rows * width);
  accurate.reserve(&statistics_, 2 * rows);
  accurate_ = accurate.allocate(compute_.memory());
  if (!compute_.memory().is_host()) host_logits_.resize(static_cast<std::size_t>(config_.vocabulary));
}

template <typename Real>
void GptDecoder<Real>::project(const Real* x, std::size_t tensor, Real* out, int rows, int from, int to) {
  const Real* const bias = places_.has_biases() ? weight(tensor + 1) : nullptr;
  decode_.project(x, rows, weight(tensor), bias, out, from, to);
}

template <typename Real>
void GptDecoder<Real>::norm(const Sum* x, const Real* addend, Sum* sum, std::size_t gain, int rows) {
  const int width = config_.width;
  Sum *rstd = statistics_, *mean = rstd + rows;
  if (config_.llama) {
    return compute_.llama()->rms_norm(x, addend, sum, weight(gain), norm_, rstd, rows, width,
                                      config_.llama->norm_epsilon);
  }
  compute_.layer_norm(x, addend, sum, weight(gain), weight(gain + 1), norm_, mean, rstd, rows, width);
}

template <typename Real>
void GptDecoder<Real>::add_and_norm(std::size_t gain, int rows) {
  norm(residual_, projection_, sum_, gain, rows);
  std::swap(residual_, sum_);
}

template <typename Real>
void GptDecoder<Real>::attend(int layer, int rows) {
  const compute::CacheShape shape = cache_shape();
  const int qkv_width = config_.qkv_width();
  const std::ptrdiff_t cache = layer * std::ptrdiff_t{config_.kv_width()} * config_.context;
  project(norm_, places_.of(static_cast<std::size_t>(layer), LayerTensor::qkv), qkv_, rows, config_.width,
          qkv_width);
  if (config_.llama) {
    compute_.llama()->rotate({rows, rows, length_, shape.heads + shape.kv_heads, shape.head_width, qkv_width},
                             rotary_.data(), qkv_, false);
  }
  decode_.append_to_cache(shape, length_, rows, qkv_, keys_ + cache, values_ + cache);
  decode_.cached_attention(shape, length_, rows, qkv_, keys_ + cache, values_ + cache, attention_);
}

template <typename Real>
void GptDecoder<Real>::activate(int rows) {
  if (config_.llama) return compute_.llama()->swiglu(wide_, hidden_, rows, config_.mlp_width());
  compute_.gelu(wide_, hidden_,
                static_cast<std::size_t>(rows) * static_cast<std::size_t>(config_.mlp_width()));
}

template <typename Real>
void GptDecoder<Real>::read_layer(int layer, int rows) {
  const int width = config_.width;
  const auto of = [&](LayerTensor tensor) { return places_.of(static_cast<std::size_t>(layer), tensor); };
  if (layer == 0)
    norm(residual_, nullptr, nullptr, of(LayerTensor::attention_gain), rows);
  else
    add_and_norm(of(LayerTensor::attention_gain), rows);
  attend(layer, rows);
  project(attention_, of(LayerTensor::output), projection_, rows, width, width);
  add_and_norm(of(LayerTensor::mlp_gain), rows);
  project(norm_, of(LayerTensor::expand), wide_, rows, width, config_.expanded_width());
  activate(rows);
  project(hidden_, of(LayerTensor::project), projection_, rows, config_.mlp_width(), width);
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
    rows = static_cast<int>(std::min<std::size_t>(tokens.size(), decoder_rows));
    read_rows(tokens.first(static_cast<std::size_t>(rows)));
    tokens = tokens.subspan(static_cast<std::size_t>(rows));
  }
  const std::ptrdiff_t last = std::ptrdiff_t{rows - 1} * config_.width;
  norm(residual_ + last, projection_ + last, sum_, places_.final_gain(), 1);
  decode_.project(norm_, 1, weight(places_.output_layer()), nullptr, logits_, config_.width,
                  compute_.padded_classes(config_.vocabulary));
  if (host_logits_.empty()) return {logits_, static_cast<std::size_t>(config_.vocabulary)};
  compute_.memory().copy_out(host_logits_.data(), logits_, host_logits_.size() * sizeof(Real));
  return host_logits_;
}

template class GptDecoder<float>;
template class GptDecoder<double>;
template class GptDecoder<bfloat16>;

}  // namespace muster::models
