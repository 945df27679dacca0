// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "content.hpp"
#include "models/gpt_config.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"
#include "weights/weight_source.hpp"

/// What fixtures/make_fixtures.py wrote with transformers.
inline std::filesystem::path weight_fixture(const std::string& name) {
  return std::filesystem::path(MUSTER_WEIGHT_FIXTURES) / name;
}
inline nlohmann::json expected_of_transformers() {
  return nlohmann::json::parse(content(weight_fixture("expected.json").string()));
}

inline std::vector<float> read_parameters(const muster::weights::WeightSource& source) {
  std::vector<float> parameters(muster::models::gpt_tensors(source.config()).arena_size);
  source.read(parameters);
  return parameters;
}

/// Random parameters; the gaps hold zeros.
inline std::vector<float> random_parameters(const muster::models::GptConfig& config) {
  const auto table = muster::models::gpt_tensors(config);
  std::vector<float> parameters(table.arena_size);
  for (const auto& tensor : table.tensors) {
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i)
      parameters[i] = static_cast<float>(muster::normal(1, 2, i));
  }
  return parameters;
}

/// The error line for a path that must be refused; fails the test when it is not one line.
inline std::string weights_refusal(const std::filesystem::path& path) {
  try {
    read_parameters(*muster::weights::open_weights(path));
  } catch (const muster::Error& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.find(path.string()) != std::string::npos);
    return text;
  }
  return "";
}
