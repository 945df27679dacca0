// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/gpt_config.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

using compute::Token;

/// A GPT's parameters, gradients and activations on one device. It computes in Real; compute::Accurate is the
/// type of what needs more precision. Not thread-safe.
template <typename Real>
class Gpt {
 public:
  using Sum = compute::Accurate<Real>;
  /// Allocates for `max_batch` sequences of config.context tokens. `extra`: see ModelTensors. `recompute`:
  /// keep only each layer's input, and compute the rest again in the backward pass (activation
  /// checkpointing: Chen et al., arXiv 1604.06174). The same bits, with less memory and a third more time.
  Gpt(const GptConfig& config, int max_batch, compute::Compute<Real>& compute, std::size_t extra = 0,
      bool recompute = false);

  const GptConfig& config() const noexcept { return config_; }
  ModelTensors<Sum>& tensors() noexcept { return tensors_; }
  int max_batch() const noexcept { return max_batch_; }
  /// Bytes of parameters, gradients and activations.
  std::size_t bytes() const noexcept;

  /// Sum of the cross-entropy (nats) over batch * length predictions. tokens, targets: [batch, length];
  /// length <= context.
  double loss(const Token* tokens, const Token* targets, int batch, int length);
  /// Called with a tensor's number in the table as soon as its gradient is complete; nearly from the last to
  /// the first.
  using Ready = std::function<void(std::size_t tensor)>;
  /// Overwrites the gradients with gradient_scale * d sum / d parameters. compute.loss() then returns the
  /// same sum as loss().
  void gradients(const Token* tokens, const Token* targets, int batch, int length, Sum gradient_scale,
                 const Ready& ready);
  /// Like gradients(), and returns the loss, which waits for an asynchronous device.
  double loss_and_gradients(
      const Token* tokens, const Token* targets, int batch, int length, Sum gradient_scale,
      const Ready& ready = [](std::size_t) {});

 private:
  /// One layer's tensors (parameters, then gradients) and saved activations: pointers into the arenas.
  template <typename T>
  struct LayerTensors {
    T *attention_gain, *attention_bias, *qkv, *qkv_bias, *output, *output_bias;
    T *mlp_gain, *mlp_bias, *expand, *expand_bias, *project, *project_bias;
    auto all() {
      return std::array{&attention_gain, &attention_bias, &qkv,    &qkv_bias,    &output,  &output_bias,
                        &mlp_gain,       &mlp_bias,       &expand, &expand_bias, &project, &project_bias};
    }
  };
  struct Layer {
    LayerTensors<Real> p;
    LayerTensors<Sum> d;
    Real* input;            ///< residual stream at the layer's start
    Real* norm1;            ///< LayerNorm of input
    Real *qkv, *attention;  ///< attention: before its output projection
    Real* middle;           ///< residual stream between attention and MLP
    Real *norm2, *wide, *gelu;
    Sum *mean1, *rstd1, *log_sum, *mean2, *rstd2;
  };
  void find_tensors();
  void lay_out_activations();
  void forward(const Token* tokens, int batch, int length);
  /// From norm1 to gelu.
  void forward_inside(const Layer& layer, int batch, int length);
  void forward_layer(const Layer& layer, const Real* norm_gain, const Real* norm_bias, Real* next_norm,
                     Sum* next_mean, Sum* next_rstd, int batch, int length);
  /// What the backward pass needs of a layer, computed again from its input.
  void recompute_layer(const Layer& layer, int batch, int length);
  void backward(const Token* tokens, int batch, int length, const Ready& ready);
  void backward_layer(std::size_t index, int batch, int length, const Ready& ready);

  GptConfig config_;
  ModelTensors<Sum> tensors_;
  int max_batch_;
  compute::Compute<Real>& compute_;
  int padded_vocabulary_;
  bool recompute_;
  compute::Arena<Real> activations_;
  compute::Arena<Sum> statistics_;
  std::vector<Layer> layers_;

  // Tensors outside the layers: parameter, gradient.
  Real *token_table_, *position_table_, *final_gain_, *final_bias_;
  Sum *d_token_table_, *d_position_table_, *d_final_gain_, *d_final_bias_;
  // Activations outside the layers, [rows, …].
  Real *residual_, *final_norm_, *logits_, *projection_;
  Sum *final_mean_, *final_rstd_;
  // Gradients of activations, reused by every layer.
  Real *d_residual_, *d_norm_, *d_wide_, *d_qkv_, *d_attention_;
};

}  // namespace muster::models
