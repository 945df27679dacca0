// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "muster/muster.hpp"

namespace muster {

/// Flags of this rank for all ranks; how many ranks set each is reduced in every step.
struct StepFlags {
  bool stop = false;    ///< a signal was received
  bool failed = false;  ///< another error occurred on this rank
};

struct StepResult {
  double loss = 0;           ///< mean over the global batch, nats per prediction
  double gradient_norm = 0;  ///< before clipping
  /// False on every rank when any rank's loss or gradients are not finite; then there was no update.
  bool finite = true;
  Share non_finite_samples;  ///< this rank's global samples with non-finite loss or gradients
  bool any_stop = false, any_failed = false;
  /// Why this rank could not use its samples; then any_failed is true on every rank.
  std::optional<Error> error;
  /// Seconds by which the gradient reduction outlasted the backward pass, plus, with sharded optimizer state,
  /// the seconds of gathering the parameters, which does not overlap with anything.
  double exposed = 0;
  double loading = 0;              ///< seconds in which the step waited for its samples
  double communication = 0;        ///< seconds in which gradients or parameters were communicated
  std::size_t gradient_bytes = 0;  ///< reduced in this step; of parameters, when these are averaged
  std::size_t gathered_bytes = 0;  ///< of parameters, the parts of all ranks
  /// Of a pipeline, on rank 0: the mean share of the step in which a rank computed nothing.
  std::optional<double> idle_share;
  bool synchronized = false;  ///< the ranks' parameters were averaged after this step
  /// When this rank had done the step, if its result was ready later than that.
  std::optional<std::chrono::steady_clock::time_point> done;
};

/// An average of the ranks' parameters.
struct Synchronization {
  std::size_t bytes = 0;  ///< of parameters, of one rank
  double seconds = 0;     ///< 0 when it is only queued on a device
};

}  // namespace muster
