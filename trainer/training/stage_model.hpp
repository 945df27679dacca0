// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/gpt_config.hpp"
#include "models/model_tensors.hpp"
#include "training/model.hpp"

namespace muster {

/// How one stage of a pipeline is built.
struct StageSettings {
  models::LayerRange layers;
  int slots = 1;                  ///< micro-batches whose activations are kept at a time
  int weight_slots = 0;           ///< micro-batches between backward_input() and backward_weight() at a time
  std::uint64_t max_samples = 1;  ///< of a micro-batch
  std::size_t extra = 0;          ///< elements before the gradients (ModelTensors)
};

/// The tensors of a stage: a slice of the model's trained ones, and one of its statistics behind it.
struct StageTable {
  models::TensorTable table;
  std::size_t first_tensor = 0;  ///< number in the whole model's table of the table's first tensor
  /// The output layer is the token embedding, which the first stage has: the last tensor is a copy, and is
  /// not trained here.
  bool has_copied_table = false;
  std::size_t first_statistic = 0;  ///< number in the whole model's table of the first statistic, if any

  /// Elements with gaps of the statistics.
  std::size_t statistics_size() const { return has_copied_table ? 0 : table.arena_size - table.trained_size; }
};

/// One stage of a model that is divided by layers, and the training samples of its micro-batches, of which
/// several are in flight, each in a slot. All stages together compute what Model computes, with the same
/// bits. Not thread-safe.
class StageModel {
 public:
  virtual ~StageModel() = default;

  virtual models::ModelTensors<float>& tensors() noexcept = 0;
  /// Bytes of parameters, gradients, activations and samples.
  virtual std::size_t bytes() const noexcept = 0;

  /// As Model's.
  virtual void prefetch(std::span<const Share> /*samples*/) {}
  virtual std::vector<std::string> left_out() const { return {}; }
  /// Puts samples [first, first + count) into the slot; throws as Model::load_samples().
  virtual void load_samples(int slot, std::uint64_t first, std::uint64_t count) = 0;
  /// What the stages exchange for the slot's micro-batch: the activations before the stage's first layer and
  /// behind its last one, and their gradients, each in as many parts as layers behind take the activations.
  /// The gradient of output() is set before backward(), which overwrites it and sets that of input(), perhaps
  /// in the same memory.
  virtual std::span<std::byte> input(int slot) = 0;
  virtual std::span<std::byte> output(int slot) = 0;
  virtual std::vector<std::span<std::byte>> input_gradient(int slot) = 0;
  virtual std::vector<std::span<std::byte>> output_gradient(int slot) = 0;
  /// gradient_scale: that of backward(), for statistics of the batch. Held-out samples need none.
  virtual void forward(int slot, float gradient_scale) = 0;
  /// Overwrites the gradients as Model::gradients(), after forward(). The last stage computes the loss, too.
  /// A first stage whose token embedding is another stage's output layer adds to that tensor's gradient,
  /// which the caller sets before.
  virtual void backward(int slot, float gradient_scale, const Model::Ready& ready) = 0;
  /// The two halves of backward(): the gradient of input(), and later the gradients of the weights, for which
  /// `weight_slot` keeps what they need. The gradient of a copied token embedding is ready after the first
  /// half.
  virtual void backward_input(int slot, int weight_slot, float gradient_scale, const Model::Ready& ready) = 0;
  virtual void backward_weight(int slot, int weight_slot, const Model::Ready& ready) = 0;

  /// As Model's, over the replicas of the stage. Their forward and backward passes are in one order.
  virtual void synchronize_batch_norm(const Model::AllReduce& /*all_reduce*/) {}

  /// Chooses the share of the held-out predictions that Model::validate_share() validates.
  virtual void begin_validation(int rank, int ranks, bool fixed) = 0;
  /// Puts the share's next batch into the slot, without its samples. False: there is none.
  virtual bool next_held_out(int slot) = 0;
  /// Loads its samples; throws as load_samples().
  virtual void load_held_out(int slot) = 0;
  /// The result of the slot's batch after forward(), of the last stage: sums with their weights.
  virtual Validation held_out_result(int slot) = 0;
};

}  // namespace muster
