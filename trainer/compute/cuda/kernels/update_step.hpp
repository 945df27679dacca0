// SPDX-License-Identifier: Apache-2.0
// Data of an update that the host and kernels exchange.
#pragma once

namespace muster::compute::cuda {

/// Scalars of one AdamW step, rounded to float for the kernel.
struct UpdateScalars {
  float beta1, beta2;
  float step_size;            ///< learning rate / correction of the first moment
  float inverse_correction2;  ///< 1 / correction of the second moment
  float epsilon;
  float decay;  ///< 1 - learning rate * weight decay
};

/// Scalars of one SGD step, rounded to float for the kernel. The update is of_gradient * gradient +
/// of_momentum * momentum, once this step's gradient is part of the momentum.
struct SgdScalars {
  float decay;     ///< weight decay
  float momentum;  ///< factor of the momentum before
  float of_gradient, of_momentum;
};

/// The device's decision about a step's update.
struct Decision {
  double norm = 0;           ///< of all gradients, before clipping
  float gradient_scale = 1;  ///< factor that clips the gradients
  int apply = 0;             ///< 0: a value is not finite, nothing is updated
};

}  // namespace muster::compute::cuda
