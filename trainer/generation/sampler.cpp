// SPDX-License-Identifier: Apache-2.0
#include "generation/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "muster/philox.hpp"

namespace muster {
namespace {

constexpr std::uint64_t stream = 0x67656e6572617465;  // apart from the streams of training

/// Sets the weights of all but the k largest to 0.
void keep_top_k(std::vector<double>& weights, std::size_t k) {
  if (k == 0 || k >= weights.size()) return;
  std::vector<double> sorted = weights;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k) - 1, sorted.end(),
                   std::greater<>());
  const double least = sorted[k - 1];
  for (double& weight : weights) {
    if (weight < least) weight = 0;
  }
}

/// Sets all weights to 0 but the largest ones that together reach p of the total.
void keep_top_p(std::vector<double>& weights, double p) {
  if (p >= 1) return;
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  const double enough = p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (const std::size_t token : order) {
    const double weight = weights[token];
    if (sum >= enough && sum > 0) weights[token] = 0;
    sum += weight;
  }
}

}  // namespace

compute::Token sample(std::span<const float> logits, const SamplingOptions& o, std::uint64_t index) {
  for (const float logit : logits) {
    if (!std::isfinite(logit)) throw std::runtime_error("the model's output is not finite");
  }
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (o.temperature == 0) return static_cast<compute::Token>(largest - logits.begin());
  std::vector<double> weights;
  weights.reserve(logits.size());
  for (const float logit : logits)
    weights.push_back(std::exp((double{logit} - double{*largest}) / o.temperature));
  keep_top_k(weights, static_cast<std::size_t>(o.top_k));
  keep_top_p(weights, o.top_p);
  const double drawn = static_cast<double>(uniform_bits(o.seed, stream, index) >> 11) * 0x1p-53;
  double left = drawn * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t last = 0;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    if (weights[token] == 0) continue;
    last = token;
    left -= weights[token];
    if (left < 0) break;
  }
  return static_cast<compute::Token>(last);
}

}  // namespace muster
