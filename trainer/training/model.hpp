// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "models/model_tensors.hpp"
#include "muster/average.hpp"

namespace muster {

/// A loss to the nearest 2^-20 nats: sums of such numbers below 2^33 are exact in double, in any order and
/// over any number of ranks.
inline double exactly_addable(double loss) { return std::nearbyint(loss * 0x1p20) * 0x1p-20; }

/// What validation finds: means over predictions, to be added up over ranks.
struct Validation {
  Average loss;      ///< cross-entropy, nats
  Average accuracy;  ///< of predictions that are right; its weight stays 0 where nobody counts them
};

/// A network and the samples that it learns from, on one rank, as Replica sees them. Samples are numbered
/// through all epochs, the same on all ranks; what a sample gives depends on its number and the seed alone,
/// not on who computes it nor with which others. Not thread-safe.
class Model {
 public:
  virtual ~Model() = default;

  virtual models::ModelTensors<float>& tensors() noexcept = 0;
  /// Of parameters, gradients, activations and samples.
  virtual std::size_t bytes() const noexcept = 0;
  /// Reads samples [first, first + count), at most as many as it was built for.
  /// @throws muster::Error(ErrorCode::usage) when one cannot be used; the text names file and position. It
  /// can compute all the same then, on whatever it holds.
  virtual void take(std::uint64_t first, std::uint64_t count) = 0;
  /// Called with a tensor's number in the table as soon as its gradient is complete.
  using Ready = std::function<void(std::size_t tensor)>;
  /// Overwrites the gradients with gradient_scale * d sum / d parameters, where sum is that of the
  /// cross-entropy (nats) over the predictions of these samples: the compute's loss() then.
  virtual void gradients(float gradient_scale, const Ready& ready) = 0;
  using Cut = std::function<bool()>;
  static bool never() { return false; }
  /// This rank's share of the held-out predictions: every one exactly once over all ranks. `fixed`: they are
  /// computed in groups as large as there is room for, whatever the number of ranks is, so that the sums over
  /// all ranks have the same bits for any. `cut` is asked before each batch, and ends it there when true.
  /// @throws muster::Error(ErrorCode::usage) as take() does.
  virtual Validation validation_share(int rank, int ranks, bool fixed, const Cut& cut = never) = 0;
};

}  // namespace muster
