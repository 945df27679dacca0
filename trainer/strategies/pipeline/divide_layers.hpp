// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "models/gpt_config.hpp"

namespace muster::pipeline {

/// What a stage with these layers costs, in any unit.
using StageCost = std::function<double(int stage, const models::LayerRange& layers)>;

/// Divides the layers into stages so that the most expensive stage is as cheap as possible; each stage has at
/// least one layer. The cost may depend on the number of layers and on whether the first and the last one
/// are among them, but not on which others they are. `layers` is at least `stages`.
std::vector<models::LayerRange> divide_layers(int layers, int stages, const StageCost& cost);

}  // namespace muster::pipeline
