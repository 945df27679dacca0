// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compute/arena.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "models/gpt_config.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

/// A GPT, of GPT-2's kind or the Llama kind, that reads a text token by token, on the CPU: it keeps the keys
/// and values of the tokens that it has read, so that a token costs one row of the model. The same tokens
/// give the same bits for any number of threads. Not thread-safe.
template <typename Real>
class GptDecoder {
 public:
  /// `read` fills the parameters, laid out by gpt_tensors(config); it may throw. `compute` outlives the
  /// decoder.
  GptDecoder(const GptConfig& config, compute::cpu::CpuCompute<Real>& compute,
             const std::function<void(std::span<float>)>& read);

  const GptConfig& config() const noexcept { return config_; }
  /// Tokens read since reset(), at most config().context.
  int length() const noexcept { return length_; }
  /// Forgets all tokens.
  void reset() noexcept { length_ = 0; }
  /// Reads tokens, each below the vocabulary, and returns the logits [vocabulary] of the one that follows
  /// them. Valid until the next call. length() + tokens.size() may not exceed the context; at least one
  /// token.
  std::span<const Real> read(std::span<const compute::Token> tokens);

 private:
  using Sum = compute::Accurate<Real>;
  const Real* weight(std::size_t tensor) const { return parameters_.data() + table_.tensors[tensor].offset; }
  void lay_out();
  void read_rows(std::span<const compute::Token> tokens);
  void read_layer(int layer, int rows);
  /// Appends the rows' keys and values to the layer's cache, and gathers their queries.
  void cache_rows(int layer, int rows);
  void project(const Real* x, std::size_t tensor, Real* out, int rows, int from, int to);
  /// sum = x + addend unless addend is null, and its norm in norm_.
  void norm(const Real* x, const Real* addend, Real* sum, std::size_t gain, int rows);
  void activate(int rows);

  GptConfig config_;
  TensorIndex places_;
  TensorTable table_;
  compute::cpu::CpuCompute<Real>& compute_;
  compute::Arena<Real> parameters_, activations_;
  compute::Arena<Sum> statistics_, rotary_;
  int length_ = 0;
  /// [layers, kv_heads, head_width, context] and [layers, kv_heads, context, head_width].
  Real *keys_, *values_;
  Real *residual_, *sum_, *norm_, *qkv_, *queries_, *attention_, *projection_, *wide_, *hidden_, *logits_;
};

}  // namespace muster::models
