// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compute/arena.hpp"
#include "compute/precision.hpp"
#include "models/gradient_plan.hpp"
#include "models/network_stage.hpp"

namespace muster::models {

/// For how much a ConvNet allocates.
struct ConvNetSizes {
  int max_batch = 1;               ///< images in slot 0
  int training_batch = max_batch;  ///< images in another slot, and of a backward pass
  int slots = 1;                   ///< micro-batches whose activations are kept at a time
  int weight_slots = 0;            ///< micro-batches between the two halves of their backward pass at a time
};

/// What one micro-batch keeps from its forward to its backward pass; of each layer, by its number.
template <typename Real>
struct ConvNetSlot {
  using Sum = compute::Accurate<Real>;
  std::vector<Real*> outputs;         ///< that of layer 0: the images, or what the stage before sent
  std::vector<std::uint8_t*> places;  ///< of max pooling's largest pixels
  std::vector<Sum*> means, rstds;     ///< of batch normalizations
  /// The gradients of the running statistics, laid out as in the table. Null with one slot, where the forward
  /// pass writes them to the gradients.
  Sum* statistics = nullptr;
  std::array<Real*, 2> d_input{};    ///< parts of the gradient of a stage's input
  std::vector<const Real*> dropout;  ///< ConvNet::Dropout of the batch
  int batch = 0;                     ///< images
};

/// What one micro-batch keeps between the two halves of its backward pass.
template <typename Real>
struct ConvNetWeightSlot {
  using Sum = compute::Accurate<Real>;
  struct NormGradients {
    Sum *gain = nullptr, *bias = nullptr;
  };
  std::vector<Real*> buffers;        ///< by number, those that GradientPlan keeps
  std::vector<NormGradients> norms;  ///< of batch normalizations, by layer
};

/// The activations of a network or of one stage, and their gradients.
template <typename Real>
class ConvNetActivations {
 public:
  using Sum = compute::Accurate<Real>;
  ConvNetActivations(const NetworkStage& stage, const ConvNetSizes& sizes, compute::Memory& memory);

  std::size_t bytes() const noexcept {
    return reals_.size() * sizeof(Real) + sums_.size() * sizeof(Sum) + places_.size();
  }
  ConvNetSlot<Real>& slot(int number) { return slots_[static_cast<std::size_t>(number)]; }
  ConvNetWeightSlot<Real>& weight_slot(int number) { return weight_slots_[static_cast<std::size_t>(number)]; }
  /// `kept`: of the micro-batch, where the backward pass is in halves.
  Real* buffer(const std::optional<std::size_t>& number, const ConvNetWeightSlot<Real>* kept) {
    if (!number) return nullptr;
    return plan_.buffers[*number].is_kept ? kept->buffers[*number] : buffers_[*number];
  }
  const GradientPlan& plan() const noexcept { return plan_; }

 private:
  struct Layouts;
  void lay_out_slot(ConvNetSlot<Real>& slot, const NetworkStage& stage, std::size_t images, Layouts& layouts);
  /// What a stage sends, or keeps because several slots cannot share it.
  void lay_out_results(ConvNetSlot<Real>& slot, const NetworkStage& stage, const ConvNetSizes& sizes,
                       Layouts& layouts);
  void lay_out_weight_slot(ConvNetWeightSlot<Real>& kept, const NetworkStage& stage, std::size_t images,
                           Layouts& layouts);

  GradientPlan plan_;
  std::vector<ConvNetSlot<Real>> slots_;
  std::vector<ConvNetWeightSlot<Real>> weight_slots_;
  std::vector<Real*> buffers_;  ///< of the plan, those that all micro-batches share
  compute::Arena<Real> reals_;
  compute::Arena<Sum> sums_;
  compute::Arena<std::uint8_t> places_;
};

}  // namespace muster::models
