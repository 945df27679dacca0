// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/gpt_activations.hpp"
#include "models/gpt_config.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

using compute::Token;

/// A GPT's (GPT-2's or the Llama kind's) parameters, gradients and activations on one device. It computes in
/// Real; compute::Accurate is the type of what needs more precision, such as the residual stream and its
/// gradient. Not thread-safe.
///
/// It can be one stage of a pipeline, whose first layer gets its input from another stage, or whose last
/// layer's output goes to one. Then forward() and backward() do the stage's part for one of several
/// micro-batches. All stages together compute the same bits as the whole model.
template <typename Real>
class Gpt {
 public:
  using Sum = compute::Accurate<Real>;
  /// Allocates for `max_batch` sequences of config.context tokens. `extra`: see ModelTensors. `recompute`:
  /// keep only each layer's input, and compute the rest again in the backward pass (activation
  /// checkpointing: Chen et al., arXiv 1604.06174). The same bits, with less memory and a third more time.
  Gpt(const GptConfig& config, int max_batch, compute::Compute<Real>& compute, std::size_t extra = 0,
      bool recompute = false)
      : Gpt(config, {{0, config.layers}}, max_batch, compute, extra, recompute) {}
  Gpt(const GptConfig& config, const GptStage& stage, int max_batch, compute::Compute<Real>& compute,
      std::size_t extra, bool recompute);

  const GptConfig& config() const noexcept { return config_; }
  ModelTensors<Sum>& tensors() noexcept { return tensors_; }
  int max_batch() const noexcept { return max_batch_; }
  /// Bytes of parameters, gradients and activations.
  std::size_t bytes() const noexcept {
    return tensors_.bytes() + memory_.bytes() + rotary_.size() * sizeof(Sum);
  }

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

  /// What a stage exchanges with its neighbours for micro-batch `slot`, below GptStage::micro_batches; each
  /// is [batch * length, width]. The residual stream before its first layer and behind its last one, and the
  /// gradient, of the output before backward() and of the input afterwards.
  Sum* input(int slot) { return memory_.slot(slot).layers.front().input; }
  Sum* output(int slot) { return memory_.slot(slot).residual; }
  Sum* gradient(int slot) { return memory_.slot(slot).d_residual; }
  /// From the tokens or the input to the output, or to the final norm. Only a stage with the embeddings
  /// reads the tokens.
  void forward(int slot, const Token* tokens, int batch, int length);
  /// The loss after forward(), of a stage with the output layer.
  double output_loss(int slot, const Token* targets, int batch, int length);
  /// The gradients after forward(), as gradients() has them. A stage with the embeddings whose tied output
  /// layer is on another stage adds to the token embedding's gradient, which the caller sets before.
  void backward(int slot, const Token* tokens, const Token* targets, int batch, int length,
                Sum gradient_scale, const Ready& ready);
  /// The two halves of backward(), with the same bits: first the gradient of the input, later the gradients
  /// of the weights. Both need what `weight_slot`, below GptStage::weight_slots, keeps in between. The
  /// gradient of a copied token embedding is complete after the first half, all others after the second.
  void backward_input(int slot, int weight_slot, const Token* targets, int batch, int length,
                      Sum gradient_scale, const Ready& ready);
  void backward_weight(int slot, int weight_slot, const Token* tokens, int batch, int length,
                       const Ready& ready);

 private:
  using Layer = GptLayer<Real>;
  using NormResult = GptNorm<Real>;
  using LayerGradients = GptLayerGradients<Real>;
  template <typename T>
  using Pair = GptPair<T>;
  std::vector<Layer>& layers() { return slot_->layers; }
  void find_tensors();
  Pair<Real> find_weight(std::size_t place);
  Pair<Sum> find_gradient(std::size_t place);
  /// sum = x + addend unless addend is null, and its norm.
  void norm(const Sum* x, const Real* addend, Sum* sum, const Pair<Real>& p, const NormResult& to, int rows);
  /// Adds to the gradient of the residual stream. `rounded`, unless null, gets that gradient.
  void norm_backward(const Sum* x, const Pair<Real>& p, const NormResult& of, const Pair<Sum>& d,
                     Real* rounded, int rows);
  /// Where backward() has the gradient of the residual stream that matrix products read.
  Real* product_gradient() {
    if constexpr (std::is_same_v<Real, Sum>)
      return slot_->d_residual;
    else
      return memory_.d_rounded;
  }
  /// Copies the gradient that the next stage computed to where matrix products read it.
  void round_output_gradient(Real* rounded, int rows);
  /// Rotates the queries and keys of (query | key | value), if the model has rotary positions.
  void rotate(Real* qkv, int rows, int length, bool back);
  compute::AttentionShape attention_shape(int batch, int length) const {
    return {batch, length, config_.heads, config_.width, config_.kv_heads()};
  }
  void linear(const Real* x, const Pair<Real>& p, Real* out, int rows, int from, int to);
  void expand(const Layer& layer, int rows);
  /// From the gradient of the residual stream behind the layer to that before it. `computed` follows as soon
  /// as a tensor's gradient can be computed, before its operands change. of.project has the gradient behind
  /// the layer; `before`, unless null, gets the one before it.
  void layer_input_gradients(const Layer& layer, const LayerGradients& of, Real* before, int batch,
                             int length, const std::function<void(LayerTensor)>& computed);
  void layer_weight_gradient(LayerTensor tensor, const Layer& layer, const LayerGradients& of, int rows);
  /// Copies a gain's gradient from where the input gradients left it.
  void take_gain(const Pair<Sum>& from, const Pair<Sum>& to);
  void pair_ready(std::size_t layer, LayerTensor tensor, const Ready& ready) const {
    const std::size_t place = places_.of(layer, tensor);
    if (places_.has_biases()) ready(place + 1);
    ready(place);
  }
  void embed(const Token* tokens, int batch, int length);
  void forward_output(Real* logits, int rows);
  bool copies_table() const { return places_.has_output() && !is_trained(places_.output_layer()); }
  bool is_trained(std::size_t tensor) const { return tensors_.table().tensors[tensor].is_trained; }
  void output_input_gradient(Real* logits, const Pair<Sum>& d_gain, Real* rounded, const Token* targets,
                             int rows, Sum gradient_scale);
  void output_weight_gradient(const Real* logits, int rows);
  /// From norm1 to hidden.
  void forward_inside(const Layer& layer, int batch, int length);
  void forward_layer(const Layer& layer, const Pair<Real>& next, const NormResult& next_norm, int batch,
                     int length);
  /// What the backward pass needs of a layer, computed again from its input.
  void recompute_layer(const Layer& layer, int batch, int length);
  void backward_layer(std::size_t index, int batch, int length, const Ready& ready);
  void backward_embeddings(const Token* tokens, int batch, int length, const Ready& ready);

  GptConfig config_;
  TensorIndex places_;
  ModelTensors<Sum> tensors_;
  int max_batch_;
  compute::Compute<Real>& compute_;
  compute::LlamaCompute<Real>* llama_;  ///< null for GPT-2's kind
  int padded_vocabulary_;
  bool recompute_;
  compute::Arena<Sum> rotary_;
  GptActivations<Real> memory_;
  GptSlot<Real>* slot_;              ///< that is computed
  const Layer* computed_ = nullptr;  ///< with recompute, the layer whose activations are in memory

  // Tensors outside the layers: parameter, gradient.
  Real *token_table_ = nullptr, *position_table_ = nullptr, *output_table_ = nullptr;
  Sum *d_token_table_ = nullptr, *d_position_table_ = nullptr, *d_output_table_ = nullptr;
  Pair<Real> final_gain_;
  Pair<Sum> d_final_gain_;
};

}  // namespace muster::models
