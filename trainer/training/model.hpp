// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/model_tensors.hpp"
#include "muster/average.hpp"
#include "muster/communicator.hpp"
#include "muster/sampler.hpp"

namespace muster {

/// Rounds a loss to the nearest 2^-20 nats: sums of such values below 2^33 are exact in double, in any order
/// and over any number of ranks.
inline double round_for_exact_sum(double loss) { return std::nearbyint(loss * 0x1p20) * 0x1p-20; }

/// The result of a validation: means over predictions, to be averaged over ranks.
struct Validation {
  Average loss;      ///< cross-entropy, nats
  Average accuracy;  ///< share of right predictions; weight 0 when the model does not count them
};

/// Replaces every rank's part by the exact mean over all ranks. Collective.
inline void average_over_ranks(Communicator& host, Validation& validation) {
  Average all[] = {validation.loss, validation.accuracy};
  average_over_ranks(host, all);
  validation = {all[0], all[1]};
}

/// One rank's network and training samples, as Replica uses them. Samples are numbered through all epochs,
/// the same on all ranks. A sample's result depends on its number and the seed alone, not on the rank or on
/// the other samples of its batch. Not thread-safe.
class Model {
 public:
  virtual ~Model() = default;

  virtual models::ModelTensors<float>& tensors() noexcept = 0;
  /// Bytes of parameters, gradients, activations and samples.
  virtual std::size_t bytes() const noexcept = 0;
  /// Says which samples will be loaded soon, in this order, so that threads can prepare them.
  virtual void prefetch(std::span<const Share> /*samples*/) {}
  /// What was left out of the data so far because it cannot be used, one line each, without line breaks.
  virtual std::vector<std::string> left_out() const { return {}; }
  /// Loads samples [first, first + count), at most as many as the model was built for.
  /// @throws muster::Error(ErrorCode::usage) when a sample cannot be used; the text names file and position.
  /// gradients() may still be called afterwards and uses unspecified samples.
  virtual void load_samples(std::uint64_t first, std::uint64_t count) = 0;
  /// Called with a tensor's number in the table as soon as its gradient is complete.
  using Ready = std::function<void(std::size_t tensor)>;
  /// Overwrites the gradients with gradient_scale * d sum / d parameters. sum is the cross-entropy (nats)
  /// summed over the predictions of the loaded samples; the compute's loss() returns it afterwards.
  virtual void gradients(float gradient_scale, const Ready& ready) = 0;
  /// As compute::BatchNorm's.
  using AllReduce = std::function<void(std::span<double>)>;
  /// From now on gradients() normalizes batches by the statistics of all ranks' samples together, and every
  /// rank has to call it. Without batch normalization nothing changes.
  virtual void synchronize_batch_norm(const AllReduce& /*all_reduce*/) {}
  using ShouldStop = std::function<bool()>;
  static bool never_stop() { return false; }
  /// Validates this rank's share of the held-out predictions; over all ranks each one is predicted exactly
  /// once. `fixed`: use groups of the maximum batch for any number of ranks, so that the sums over all ranks
  /// have the same bits for any number. `should_stop` is called before each batch; true ends the validation.
  /// @throws muster::Error(ErrorCode::usage) as load_samples() does.
  virtual Validation validate_share(int rank, int ranks, bool fixed,
                                    const ShouldStop& should_stop = never_stop) = 0;
};

}  // namespace muster
