// SPDX-License-Identifier: Apache-2.0
#include "models/tensor_table.hpp"

#include <algorithm>
#include <utility>

#include "compute/arena.hpp"

namespace muster::models {

void TensorTable::append(const TensorTable& whole, std::size_t begin, std::size_t end) {
  const auto offset_of = [&](std::size_t i) {
    return i < whole.tensors.size() ? whole.tensors[i].offset : whole.arena_size;
  };
  if (begin >= end) return;
  for (std::size_t i = begin; i < end; ++i) {
    tensors.push_back(whole.tensors[i]);
    tensors.back().offset = arena_size + offset_of(i) - offset_of(begin);
    if (tensors.back().is_trained) parameter_count += tensors.back().count;
  }
  arena_size += offset_of(end) - offset_of(begin);
  if (tensors.back().is_trained) trained_size = arena_size;
}

std::vector<std::size_t> TensorTable::trained_ends() const {
  std::vector<std::size_t> ends;
  for (const Tensor& tensor : tensors) {
    if (!tensor.is_trained) break;
    if (tensor.offset > 0) ends.push_back(tensor.offset);
  }
  if (trained_size > 0) ends.push_back(trained_size);
  return ends;
}

void TableBuilder::add(std::string name, std::vector<std::int64_t> shape, bool decay, double deviation,
                       double value, Distribution distribution) {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  table_.tensors.push_back({std::move(name), std::move(shape), table_.arena_size, count, decay, deviation,
                            value, distribution, true, table_.tensors.size()});
  // Offsets must be equal for float and double: round for the smaller type.
  table_.arena_size += compute::aligned_count<float>(count);
  table_.parameter_count += count;
  table_.trained_size = table_.arena_size;
}

void TableBuilder::add_statistic(std::string name, std::size_t count, double value) {
  const auto [trained_size, parameter_count] = std::pair(table_.trained_size, table_.parameter_count);
  add(std::move(name), {static_cast<std::int64_t>(count)}, false, 0, value);
  table_.tensors.back().is_trained = false;
  table_.trained_size = trained_size;
  table_.parameter_count = parameter_count;
}

void TableBuilder::pad_last_to(std::size_t count) {
  const std::size_t end = table_.tensors.back().offset + compute::aligned_count<float>(count);
  table_.arena_size = std::max(table_.arena_size, end);
  table_.trained_size = table_.arena_size;
}

}  // namespace muster::models
