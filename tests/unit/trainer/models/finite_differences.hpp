// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "catch.hpp"
#include "models/model_tensors.hpp"
#include "muster/philox.hpp"

/// Settings to compare a gradient with central differences of the loss. For a step h, these have an error of
/// about h^2 |f'''| / 6 + 1e-16 |f| / h. Each entry is compared relative to the larger of its own size and a
/// thousandth of its tensor's largest gradient, because rounding hides the smallest ones.
struct Differences {
  double step = 1e-4, bound = 1e-5;
  std::size_t samples_per_tensor = 12;
};

/// `loss` computes the loss of the current parameters. `choose`: the element to check, instead of a random
/// one.
inline void check_gradients_by_differences(
    muster::models::ModelTensors<double>& tensors, double scale, const std::function<double()>& loss,
    const Differences& how,
    const std::function<std::size_t(const muster::models::Tensor&, std::size_t sample, std::size_t random)>&
        choose = [](const auto&, std::size_t, std::size_t random) { return random; }) {
  const std::vector<double> gradients(tensors.gradients().begin(), tensors.gradients().end());
  for (const auto& tensor : tensors.table().tensors) {
    double largest = 0;
    for (std::size_t j = 0; j < tensor.count; ++j)
      largest = std::max(largest, std::abs(gradients[tensor.offset + j]));
    CAPTURE(tensor.name, largest);
    REQUIRE(largest > 1e-6);  // a tensor of zero gradients would pass any comparison
    for (std::size_t sample = 0; sample < how.samples_per_tensor; ++sample) {
      const std::size_t j =
          choose(tensor, sample, muster::uniform_bits(17, tensor.offset, sample) % tensor.count);
      double& parameter = tensors.parameters()[tensor.offset + j];
      const double original = parameter;
      parameter = original + how.step;
      const double above = loss();
      parameter = original - how.step;
      const double below = loss();
      parameter = original;
      const double expected = (above - below) / (2 * how.step) * scale;
      const double found = gradients[tensor.offset + j];
      CAPTURE(j, expected, found);
      CHECK(std::abs(found - expected) <=
            how.bound * std::max({std::abs(expected), std::abs(found), 1e-3 * largest}));
    }
  }
}
