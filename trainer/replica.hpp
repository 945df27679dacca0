// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint.hpp"
#include "compute/compute.hpp"
#include "data/corpus.hpp"
#include "data/windows.hpp"
#include "models/gpt.hpp"
#include "muster/muster.hpp"
#include "optimizer.hpp"
#include "validation.hpp"

namespace muster {

/// What this rank wants the others to know; the counts travel with the gradients.
struct StepNotes {
  bool stop = false;    ///< a signal came
  bool failed = false;  ///< something else went wrong on this rank
};

struct StepResult {
  double loss = 0;           ///< mean over the global batch, nats per byte
  double gradient_norm = 0;  ///< before clipping
  bool finite = true;  ///< false on every rank when a loss or gradient of any rank is not finite; nothing was
                       ///< updated then
  bool finite_here = true;  ///< this rank's own loss and gradients
  bool any_stop = false, any_failed = false;
  double exposed = 0;  ///< seconds that the reduction of the gradients took beyond the backward pass
};

/// One rank's copy of the model and its part in data-parallel training: the same parameters on every rank
/// after every step. All functions that communicate are collective over `world`.
class Replica {
 public:
  struct Settings {
    models::GptConfig model;
    AdamwSettings adamw;
    int batch = 12;  ///< global sequences per step, at least one for each rank
    std::uint64_t seed = 0;
    /// Sequences in a chunk, above 0: gradients are computed chunk by chunk and added in a fixed tree, so that a
    /// step has the same bits for any number of ranks (ReducerOptions::chunks). 0: each rank computes its
    /// sequences at once.
    int chunk = 0;
  };
  /// @throws muster::Error(Fault::usage) when the training text is shorter than one sample.
  Replica(const Settings& settings, const data::Corpus& corpus, compute::Compute<float>& compute,
          Communicator world);

  /// Initial parameters from the seed, on this rank only: broadcast() follows.
  void initialize() { model_.initialize(settings_.seed); }
  /// Rank 0's parameters and moments to all.
  void broadcast();

  /// The update after `step` others, on the global samples [first_sample, first_sample + batch).
  StepResult step(std::int64_t step, std::int64_t first_sample, double learning_rate, const StepNotes& notes);
  /// Loss over the held-out text, nats per byte, exact over all ranks; the weight is the number of bytes.
  Average validate();
  /// Hash over the parameters.
  std::uint64_t parameter_hash();

  const models::TensorTable& table() const noexcept { return model_.table(); }
  TrainingTensors tensors() noexcept {
    return {model_.parameters(), optimizer_.moment1(), optimizer_.moment2()};
  }
  std::int64_t tokens_per_step() const noexcept {
    return std::int64_t{settings_.batch} * settings_.model.context;
  }
  std::size_t windows_per_epoch() const noexcept { return windows_.per_epoch(); }

 private:
  void connect();
  Share samples_of(std::uint64_t chunk) const;
  void take_samples(std::uint64_t first_sample, std::uint64_t count);
  void compute_chunk(std::uint64_t first_sample, std::uint64_t count, const StepNotes& notes,
                     StepResult& result);

  Settings settings_;
  const data::Corpus& corpus_;
  Communicator world_;
  compute::Compute<float>& compute_;
  std::uint64_t chunks_;      ///< of each step's samples, over all ranks; one for each rank without settings.chunk
  std::uint64_t most_count_;  ///< samples that this rank takes at once
  data::Windows windows_;
  models::Gpt<float> model_;
  Adamw<float> optimizer_;
  std::vector<std::uint8_t> tokens_, targets_;  ///< [most_count, context]
  std::optional<Reducer> reducer_;              ///< from the first step on; of the extra scalars and every tensor
};

}  // namespace muster
