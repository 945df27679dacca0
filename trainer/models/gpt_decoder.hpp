// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/gpt_config.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

/// Rows that a decoder computes together. Fixed, since the order of a product's sums may depend on it.
inline constexpr int decoder_rows = 128;

/// A GPT, of GPT-2's kind or the Llama kind, that reads a text token by token: it keeps the keys and values
/// of the tokens that it has read, so that a token costs one row of the model. On the CPU the same tokens
/// give the same bits for any number of threads. Not thread-safe.
template <typename Real>
class GptDecoder {
 public:
  /// `read` fills the parameters, laid out by gpt_tensors(config); it may throw. `compute` outlives the
  /// decoder.
  /// @throws Error(ErrorCode::usage) when the device does not generate.
  GptDecoder(const GptConfig& config, compute::Compute<Real>& compute,
             const std::function<void(std::span<float>)>& read);

  const GptConfig& config() const noexcept { return config_; }
  /// Tokens read since reset(), at most config().context.
  int length() const noexcept { return length_; }
  /// Forgets all tokens.
  void reset() noexcept { length_ = 0; }
  /// Reads tokens, each below the vocabulary, and returns the logits [vocabulary] of the one that follows
  /// them, in host memory. Valid until the next call. length() + tokens.size() may not exceed the context; at
  /// least one token.
  std::span<const Real> read(std::span<const compute::Token> tokens);

 private:
  using Sum = compute::Accurate<Real>;
  const Real* weight(std::size_t tensor) const { return parameters_.data() + table_.tensors[tensor].offset; }
  compute::CacheShape cache_shape() const;
  void read_parameters(const std::function<void(std::span<float>)>& read);
  void lay_out();
  void read_rows(std::span<const compute::Token> tokens);
  void read_layer(int layer, int rows);
  /// From norm_ to attention_, with the rows' keys and values in the layer's cache.
  void attend(int layer, int rows);
  void project(const Real* x, std::size_t tensor, Real* out, int rows, int from, int to);
  /// Adds projection_ to residual_, and computes the norm in norm_.
  void add_and_norm(std::size_t gain, int rows);
  /// sum = x + addend unless addend is null, and its norm in norm_.
  void norm(const Sum* x, const Real* addend, Sum* sum, std::size_t gain, int rows);
  void activate(int rows);

  GptConfig config_;
  TensorIndex places_;
  TensorTable table_;
  compute::Compute<Real>& compute_;
  compute::DecodeCompute<Real>& decode_;
  compute::Arena<Real> parameters_, activations_;
  compute::Arena<Sum> accurate_, rotary_;
  int length_ = 0;
  Real *keys_, *values_;  ///< of each layer, as DecodeCompute has them
  /// residual_ lacks projection_ from the first layer's attention on, until add_and_norm().
  Sum *residual_, *sum_, *statistics_;
  Real *norm_, *qkv_, *attention_, *projection_, *wide_, *hidden_, *logits_;
  std::vector<Real> host_logits_;  ///< of another device
};

}  // namespace muster::models
