// SPDX-License-Identifier: Apache-2.0
// The results of PyTorch and transformers that the scripts in fixtures/ wrote.
#pragma once

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "content.hpp"
#include "models/model_tensors.hpp"

/// Of results in double, relative.
inline constexpr double torch_bound = 1e-9;

inline nlohmann::json torch_result(const std::string& name) {
  return nlohmann::json::parse(content(std::filesystem::path(MUSTER_TRAINER_FIXTURES) / name));
}

/// Compares the gradient of each tensor with that of its name.
inline void check_gradients(muster::models::ModelTensors<double>& tensors, const nlohmann::json& expected) {
  const auto& table = tensors.table().tensors;
  REQUIRE(expected.size() == table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto gradient = expected.at(table[i].name).get<std::vector<double>>();
    CAPTURE(table[i].name);
    REQUIRE(gradient.size() == table[i].count);
    double difference = 0, size = 0;
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      difference += std::pow(tensors.gradient(i)[j] - gradient[j], 2);
      size += gradient[j] * gradient[j];
    }
    REQUIRE(size > 1e-12);
    CHECK(std::sqrt(difference) <= torch_bound * std::sqrt(size));
  }
}
