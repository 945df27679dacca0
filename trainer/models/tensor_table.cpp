// SPDX-License-Identifier: Apache-2.0
#include "models/tensor_table.hpp"

#include <algorithm>

#include "compute/arena.hpp"

namespace muster::models {

void TableBuilder::add(std::string name, std::vector<std::int64_t> shape, bool decay, double deviation,
                       double value, Distribution distribution) {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  table_.tensors.push_back(
      {std::move(name), std::move(shape), table_.arena_size, count, decay, deviation, value, distribution});
  // Offsets must be equal for float and double: round for the smaller type.
  table_.arena_size += compute::aligned_count<float>(count);
  table_.parameter_count += count;
}

void TableBuilder::pad_last_to(std::size_t count) {
  const std::size_t end = table_.tensors.back().offset + compute::aligned_count<float>(count);
  table_.arena_size = std::max(table_.arena_size, end);
}

}  // namespace muster::models
