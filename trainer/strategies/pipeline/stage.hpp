// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compute/compute.hpp"
#include "muster/muster.hpp"
#include "optimizer/optimizer.hpp"
#include "strategies/pipeline/plan.hpp"
#include "strategies/pipeline/stage_links.hpp"

namespace muster::pipeline {

/// One stage of this rank: its model, the reduction of its gradients over the replicas of the stage, and its
/// optimizer. Functions that communicate are collective over these replicas.
class Stage {
 public:
  /// `group`: the stage's replicas, in their order, on the compute's memory. The other arguments outlive it.
  template <typename Real>
  Stage(int number, const Plan& plan, const Replica::Settings& training, const Workload& workload,
        compute::Compute<Real>& compute, Communicator group, StageLinks& links);

  int number() const noexcept { return number_; }
  StageModel& model() noexcept { return *model_; }
  const StageTable& table() const noexcept { return table_; }
  std::size_t bytes() noexcept;

  /// The backward pass of a micro-batch. Its gradients are added to those of the micro-batches before;
  /// those of the chunk that it ends are passed to the reduction. `scalars`: writes the chunk's reduced
  /// scalars.
  void backward(int micro_batch, int slot, float gradient_scale,
                const std::function<void(std::span<float>)>& scalars);
  /// The same in two halves, as StageModel's.
  void backward_input(int micro_batch, int slot, float gradient_scale);
  void backward_weight(int micro_batch, int slot, const std::function<void(std::span<float>)>& scalars);
  /// Waits for the reduction; on a device later work does.
  void finish_reduction() { reducer_->finish(compute_.stream()); }
  /// The reduced scalars, and the sum of squares of each trained tensor, to `squares` of the whole model, in
  /// the compute's memory.
  std::span<const float> scalars() const { return reducer_->gradient(0); }
  void write_squares(std::span<double> squares);
  /// Of step `number`, from 1 on, that has ended.
  std::optional<ReducerStatistics> statistics(std::uint64_t number) const { return reducer_->step(number); }
  std::uint64_t chunk_of(int micro_batch) const {
    return plan_.reduces_micro_batches ? static_cast<std::uint64_t>(micro_batch) : 0;
  }

  /// Updates this rank's part, and gathers the others. @returns the gathered bytes.
  std::size_t update(double norm, double learning_rate, std::int64_t step);
  /// Copies the tied token embedding from the first stage to the last one.
  void exchange_table();
  void initialize(std::uint64_t seed) { model_->tensors().initialize(seed); }
  /// After the parameters were changed: rounds them.
  void round_parameters() { model_->tensors().round_parameters(compute_); }

  /// Without the copied table.
  std::span<float> parameters() noexcept {
    return model_->tensors().parameters().first(table_.table.trained_size + table_.statistics_size());
  }
  /// 0: the parameters; 1 and 2: this rank's part of the optimizer's moments.
  std::span<float> arena(std::size_t number) noexcept {
    return number == 0 ? parameters() : number == 1 ? optimizer_.moment1() : optimizer_.moment2();
  }
  Communicator& group() noexcept { return group_; }

 private:
  /// The gradient or parameters of the copied table.
  std::span<float> copy(std::span<float> all) const { return all.subspan(table_.table.trained_size); }
  std::span<float> gradient_of(std::size_t tensor);
  bool is_copy(std::size_t tensor) const {
    return table_.has_copied_table && tensor + 1 == table_.table.tensors.size();
  }
  bool ends_chunk(int micro_batch) const {
    return plan_.reduces_micro_batches || micro_batch + 1 == plan_.shape.micro_batches;
  }
  bool begins_chunk(int micro_batch) const { return plan_.reduces_micro_batches || micro_batch == 0; }
  void create_reducer();
  /// Before the first tensor of a micro-batch is ready, each ready tensor, and after the last one.
  void begin_gradients(int micro_batch);
  void take_gradient(std::size_t tensor, int micro_batch);
  void end_gradients(int micro_batch, const std::function<void(std::span<float>)>& scalars);
  int weight_slot(int micro_batch) const { return micro_batch % weight_slots_; }
  void prepare_table(int micro_batch);
  void add_gradient(std::size_t tensor, int micro_batch);
  void send_copy(int micro_batch);
  Share part(int replica) const;

  int number_;
  const Plan& plan_;
  const Replica::Settings& training_;
  compute::UpdateCompute<float>& compute_;
  Communicator group_;
  StageLinks& links_;
  models::TensorTable whole_;  ///< the whole model's
  StageTable table_;
  std::unique_ptr<StageModel> model_;
  Optimizer<float> optimizer_;
  std::optional<Reducer> reducer_;
  std::vector<double> squares_;   ///< as Replica's
  compute::Arena<float> sums_;    ///< of the micro-batches of a chunk; empty when they are one
  compute::Arena<float> copies_;  ///< gradients of the copied table that are being sent
  int weight_slots_;
  bool shares_table_;  ///< the token embedding is the last stage's output layer
};

}  // namespace muster::pipeline
