// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "compute/arena.hpp"
#include "models/gpt_config.hpp"

namespace muster::models {

/// Elements of a rotary_table().
inline std::size_t rotary_size(const GptConfig& config) {
  return config.llama
             ? static_cast<std::size_t>(config.context) * static_cast<std::size_t>(config.head_width())
             : 0;
}

/// The table of compute::LlamaCompute::rotate() for every position; empty without rotary positions.
template <typename Sum>
compute::Arena<Sum> rotary_table(const GptConfig& config, compute::Memory& memory = compute::host_memory()) {
  compute::Arena<Sum> host(rotary_size(config));
  const std::size_t half = static_cast<std::size_t>(config.head_width()) / 2;
  for (std::size_t i = 0; i < half && config.llama; ++i) {
    const double turn =
        std::pow(config.llama->rotary_theta, -static_cast<double>(i) / static_cast<double>(half));
    for (std::size_t position = 0; position < static_cast<std::size_t>(config.context); ++position) {
      Sum* const row = host.data() + position * 2 * half;
      row[i] = static_cast<Sum>(std::cos(static_cast<double>(position) * turn));
      row[half + i] = static_cast<Sum>(std::sin(static_cast<double>(position) * turn));
    }
  }
  if (memory.is_host()) return host;
  compute::Arena<Sum> table(host.size(), memory);
  memory.copy_in(table.data(), host.data(), host.size() * sizeof(Sum));
  return table;
}

}  // namespace muster::models
