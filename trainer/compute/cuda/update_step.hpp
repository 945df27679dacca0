// SPDX-License-Identifier: Apache-2.0
// What host and kernels pass to each other about an update.
#pragma once

namespace muster::compute::cuda {

/// Scalars of one AdamW step, rounded as the kernel takes them.
struct UpdateScalars {
  float beta1, beta2;
  float step_size;            ///< learning rate / correction of the first moment
  float inverse_correction2;  ///< 1 / correction of the second moment
  float epsilon;
  float decay;  ///< 1 - learning rate * weight decay
};

/// What the device decided about a step.
struct Decision {
  double norm = 0;           ///< of all gradients, before clipping
  float gradient_scale = 1;  ///< that clips
  int apply = 0;             ///< 0: something is not finite, nothing is updated
};

}  // namespace muster::compute::cuda
