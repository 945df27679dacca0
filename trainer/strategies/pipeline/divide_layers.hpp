// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "models/gpt_config.hpp"

namespace muster::pipeline {

/// What a stage with these layers costs, in any unit.
using StageCost = std::function<double(int stage, const models::LayerRange& layers)>;

/// Divides the layers into stages so that the most expensive stage is as cheap as possible; each stage has at
/// least one layer. `kinds`: of all layers, at least as many as stages; the cost may depend on the kinds of a
/// stage's layers, but not on which others of the same kinds they are.
std::vector<models::LayerRange> divide_layers(const std::vector<int>& kinds, int stages,
                                              const StageCost& cost);

}  // namespace muster::pipeline
