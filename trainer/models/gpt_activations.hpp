// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "compute/arena.hpp"
#include "compute/compute.hpp"
#include "models/gpt_config.hpp"
#include "models/model_tensors.hpp"

namespace muster::models {

/// A stage of a pipeline.
struct GptStage {
  LayerRange layers;
  int micro_batches = 1;  ///< the most whose activations it keeps at a time
  /// The most whose input gradients are computed and whose weight gradients are not; 0: backward() computes
  /// both. Above 0 in host memory only, without `recompute`.
  int weight_slots = 0;
};

/// A gain or weight, and its bias or null.
template <typename T>
struct GptPair {
  T *weight = nullptr, *bias = nullptr;
};

/// One layer's tensors, parameters or gradients: pointers into ModelTensors.
template <typename T>
struct GptLayerTensors {
  GptPair<T> attention_norm, qkv, output, mlp_norm, expand, project;
  auto all() { return std::array{&attention_norm, &qkv, &output, &mlp_norm, &expand, &project}; }
};

/// A norm's output and statistics. RMSNorm has no mean.
template <typename Real>
struct GptNorm {
  Real* out = nullptr;
  compute::Accurate<Real>*mean = nullptr, *rstd = nullptr;
};

/// One layer's tensors (parameters, then gradients) and saved activations.
template <typename Real>
struct GptLayer {
  GptLayerTensors<Real> p;
  GptLayerTensors<compute::Accurate<Real>> d;
  compute::Accurate<Real>* input;   ///< residual stream at the layer's start
  GptNorm<Real> norm1;              ///< of input
  Real *qkv, *attention;            ///< attention: before its output projection
  compute::Accurate<Real>* middle;  ///< residual stream between attention and MLP
  GptNorm<Real> norm2;
  Real *wide, *hidden;  ///< the MLP before and behind its activation function
  compute::Accurate<Real>* log_sum;
};

/// One micro-batch's activations, and the gradient of the residual stream.
template <typename Real>
struct GptSlot {
  std::vector<GptLayer<Real>> layers;
  compute::Accurate<Real>*residual, *d_residual;  ///< residual: behind the last layer
  GptNorm<Real> final_norm;
};

/// What a layer's weight gradients need of its input gradients: the gradients of the outputs of its matrix
/// products, and those of its norms' gains.
template <typename Real>
struct GptLayerGradients {
  Real *project = nullptr, *expand = nullptr, *output = nullptr, *qkv = nullptr;
  GptPair<compute::Accurate<Real>> mlp_norm, attention_norm;
};

/// The same of one micro-batch in all layers, from its input gradients to its weight gradients.
template <typename Real>
struct GptWeightSlot {
  std::vector<GptLayerGradients<Real>> layers;
  Real* logits = nullptr;  ///< null for a copied token embedding, whose gradient is not put off
  GptPair<compute::Accurate<Real>> final_norm;
};

/// The activations of a GPT or of one stage, and their gradients, in one block of memory.
template <typename Real>
class GptActivations {
 public:
  using Sum = compute::Accurate<Real>;
  /// `classes`: of the logits' rows. The layers' tensors are not set.
  GptActivations(const GptConfig& config, const GptStage& stage, int max_batch, int classes, bool recompute,
                 compute::Memory& memory);

  std::size_t bytes() const noexcept { return reals_.size() * sizeof(Real) + sums_.size() * sizeof(Sum); }
  GptSlot<Real>& slot(int number) { return slots[static_cast<std::size_t>(number)]; }
  GptWeightSlot<Real>& weight_slot(int number) { return weight_slots_[static_cast<std::size_t>(number)]; }

  std::vector<GptSlot<Real>> slots;
  // Outside the layers, [rows, …].
  Real *logits = nullptr, *projection;
  GptNorm<Real> unused_norm;  ///< of a stage's output, whose norm the next stage computes
  // Gradients of activations, reused by every layer. The Llama kind's MLP needs that of its hidden values.
  Real *d_norm, *d_attention, *d_wide = nullptr, *d_qkv = nullptr, *d_hidden = nullptr;
  /// The gradient of the residual stream as matrix products read it: rounded, or null where Real is accurate.
  Real* d_rounded = nullptr;

 private:
  /// What is laid out: the sizes, and the blocks so far.
  struct Plan {
    const GptConfig& config;
    std::size_t rows, logits;
    bool has_output, copies_table, recompute;
    Layout<Real> reals;
    Layout<Sum> sums;

    void reserve(Real** block, int width) { reals.reserve(block, rows * static_cast<std::size_t>(width)); }
    /// Part of the residual stream, or its gradient.
    void residual(Sum** block) { sums.reserve(block, rows * static_cast<std::size_t>(config.width)); }
    void norm(GptNorm<Real>& to);
    void gain(GptPair<Sum>& to);
  };
  void lay_out_slot(Plan& plan, GptSlot<Real>& slot);
  void lay_out_weight_slot(Plan& plan, GptWeightSlot<Real>& kept);
  void lay_out_outside(Plan& plan);
  void share_first_layer();

  std::vector<GptWeightSlot<Real>> weight_slots_;
  compute::Arena<Real> reals_;
  compute::Arena<Sum> sums_;
};

}  // namespace muster::models
