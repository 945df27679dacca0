// SPDX-License-Identifier: Apache-2.0
#include "strategies/data_parallel/part_copy.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace muster {

// In the order of hosts, a distance of the largest host's ranks leads out of every host that has at most half
// of all ranks.
std::vector<int> copied_ranks(std::span<const int> hosts) {
  const std::size_t size = hosts.size();
  std::map<int, std::size_t> sizes;
  std::size_t largest = 0;
  for (const int host : hosts) largest = std::max(largest, ++sizes[host]);
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return hosts[a] < hosts[b]; });
  const std::size_t distance = largest == size ? 1 : largest;
  std::vector<int> copied(size);
  for (std::size_t i = 0; i < size; ++i) copied[order[(i + distance) % size]] = static_cast<int>(order[i]);
  return copied;
}

PartCopy::PartCopy(const models::TensorTable& table, const OptimizerSettings& settings,
                   compute::UpdateCompute<float>& compute, Share part)
    : compute_(compute),
      optimizer_(table, settings, compute, part),
      parameters_(compute.memory().is_host() ? 0 : part.count(), compute.memory()) {}

std::size_t PartCopy::bytes() noexcept {
  return optimizer_.moment1().size_bytes() + optimizer_.moment2().size_bytes() +
         parameters_.size() * sizeof(float);
}

void PartCopy::update(models::ModelTensors<float>& tensors, double norm, double learning_rate,
                      std::int64_t step) {
  optimizer_.update(tensors.parameters(), tensors.gradients(), norm, learning_rate, step, tensors.rounded());
  tensors.update_statistics(compute_, part());
  keep_parameters(tensors.parameters());
}

void PartCopy::keep_parameters(std::span<float> all) {
  if (parameters_.size() == 0) return;
  compute_.accumulate(all.data() + part().begin, parameters_.data(), parameters_.size(), true);
}

void PartCopy::copy_out(std::span<float> all, const TrainingTensors& whole) {
  const std::span<float> in_arena = all.subspan(part().begin, part().count());
  const auto copy = [&](std::span<const float> from, std::span<float> to) {
    if (!from.empty()) compute_.memory().copy_out(to.data() + part().begin, from.data(), from.size_bytes());
  };
  copy(parameters_.size() > 0 ? parameters_.span() : in_arena, whole.parameters);
  copy(optimizer_.moment1(), whole.moment1);
  copy(optimizer_.moment2(), whole.moment2);
}

}  // namespace muster
