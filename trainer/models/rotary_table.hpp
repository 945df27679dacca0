// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <numbers>

#include "compute/arena.hpp"
#include "models/gpt_config.hpp"

namespace muster::models {

/// Elements of a rotary_table().
inline std::size_t rotary_size(const GptConfig& config) {
  return config.llama
             ? static_cast<std::size_t>(config.context) * static_cast<std::size_t>(config.head_width())
             : 0;
}

/// The angle in radians by which pair `pair` of a head turns with each position: theta^(-2 pair / width).
/// With rotary scaling, as transformers computes rope_type "llama3" (modeling_rope_utils.py): pairs that turn
/// often in the original context keep it, those that turn seldom have it divided by the factor, and between
/// the two it is interpolated.
inline double rotary_frequency(const LlamaConfig& llama, std::size_t pair, std::size_t head_width) {
  const double plain =
      std::pow(llama.rotary_theta, -2 * static_cast<double>(pair) / static_cast<double>(head_width));
  if (!llama.rotary_scaling) return plain;
  const RotaryScaling& scaling = *llama.rotary_scaling;
  const double turns = scaling.original_context * plain / (2 * std::numbers::pi);
  if (turns > scaling.high_frequency_factor) return plain;
  if (turns < scaling.low_frequency_factor) return plain / scaling.factor;
  const double kept =
      (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - kept) * plain / scaling.factor + kept * plain;
}

/// The table of compute::LlamaCompute::rotate() for every position; empty without rotary positions.
template <typename Sum>
compute::Arena<Sum> rotary_table(const GptConfig& config, compute::Memory& memory = compute::host_memory()) {
  compute::Arena<Sum> host(rotary_size(config));
  const std::size_t half = static_cast<std::size_t>(config.head_width()) / 2;
  for (std::size_t i = 0; i < half && config.llama; ++i) {
    const double turn = rotary_frequency(*config.llama, i, 2 * half);
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
