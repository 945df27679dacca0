// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "metrics.hpp"

namespace muster {

struct LossPlot {
  std::string title, subtitle;
  std::vector<LossPoint> training, validation;  ///< in order of steps
};

/// A self-contained SVG picture of training and validation loss over steps. Points that are not finite are
/// left out.
std::string draw_loss_plot(const LossPlot& plot);

}  // namespace muster
