// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "models/gpt.hpp"
#include "muster/philox.hpp"

/// The tensors of a small model, without a training run.
struct CheckpointArenas {
  muster::models::TensorTable table = muster::models::gpt_tensors({1, 2, 8, 6});
  std::vector<float> parameters = std::vector<float>(table.arena_size), moment1 = parameters,
                     moment2 = parameters;

  muster::TrainingTensors tensors() { return {parameters, moment1, moment2}; }
  void copy_to(const muster::TrainingTensors& to) const {
    std::copy(parameters.begin(), parameters.end(), to.parameters.begin());
    std::copy(moment1.begin(), moment1.end(), to.moment1.begin());
    std::copy(moment2.begin(), moment2.end(), to.moment2.begin());
  }
  void fill(std::uint64_t seed) {
    for (const auto& tensor : table.tensors) {
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
        parameters[i] = static_cast<float>(muster::normal(seed, 1, i));
        moment1[i] = static_cast<float>(muster::normal(seed, 2, i));
        moment2[i] = static_cast<float>(muster::normal(seed, 3, i));
      }
    }
  }
  bool operator==(const CheckpointArenas& other) const {
    return parameters == other.parameters && moment1 == other.moment1 && moment2 == other.moment2;
  }
};

inline muster::TrainingState state_at(std::int64_t step) {
  muster::TrainingState state;
  state.step = step;
  state.samples = 12 * step;
  state.model = "gpt layers=1";
  state.seed = 18446744073709551615u;
  state.batch = 12;
  state.data_hash = 0xfedcba9876543210u;
  state.world_size = 3;
  state.threads = 2;
  state.chunk = 4;
  return state;
}
