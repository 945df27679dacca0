// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "generation/sampler.hpp"

using namespace muster;

namespace {

/// Shares of the tokens in many draws.
std::vector<double> shares(const std::vector<float>& logits, const SamplingOptions& options) {
  constexpr int draws = 20'000;
  std::vector<double> counts(logits.size());
  for (std::uint64_t i = 0; i < draws; ++i) counts[sample(logits, options, i)] += 1.0 / draws;
  return counts;
}

const std::vector<float> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.2F),
                                std::log(0.1F)};

void check_shares(const SamplingOptions& options, const std::vector<double>& expected) {
  const auto found = shares(logits, options);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    if (expected[i] == 0)
      CHECK(found[i] == 0);
    else
      CHECK(found[i] == Approx(expected[i]).margin(0.015));  // four deviations
  }
}

}  // namespace

TEST_CASE("tokens are drawn as likely as the model says", "[sampler]") {
  check_shares({}, {0.1, 0.4, 0.2, 0.2, 0.1});
  // Divided by 0.5: squares, 0.01 + 0.16 + 0.04 + 0.04 + 0.01 = 0.26.
  check_shares({.temperature = 0.5}, {1.0 / 26, 16.0 / 26, 4.0 / 26, 4.0 / 26, 1.0 / 26});
}

TEST_CASE("top-k keeps ties, top-p the token that reaches p", "[sampler]") {
  check_shares({.top_k = 1}, {0, 1, 0, 0, 0});
  check_shares({.top_k = 2}, {0, 0.5, 0.25, 0.25, 0});
  check_shares({.top_k = 99}, {0.1, 0.4, 0.2, 0.2, 0.1});
  check_shares({.top_p = 0.39}, {0, 1, 0, 0, 0});
  check_shares({.top_p = 0.5}, {0, 2.0 / 3, 1.0 / 3, 0, 0});
  check_shares({.top_p = 0.7}, {0, 0.5, 0.25, 0.25, 0});
  check_shares({.top_p = 1e-9}, {0, 1, 0, 0, 0});
  // First top-k, then top-p of what is left: 0.5, 0.25 and 0.25.
  check_shares({.top_k = 3, .top_p = 0.6}, {0, 2.0 / 3, 1.0 / 3, 0, 0});
}

TEST_CASE("temperature 0 takes the first of the largest", "[sampler]") {
  CHECK(sample(std::vector<float>{1, 3, 2, 3}, {.temperature = 0}, 7) == 1);
  CHECK(sample(std::vector<float>{1, 3, 2, 3}, {.temperature = 1e-3, .top_k = 1}, 7) % 2 == 1);
}

TEST_CASE("a draw depends on seed and number alone", "[sampler]") {
  std::vector<compute::Token> first, again, other;
  for (std::uint64_t i = 0; i < 50; ++i) {
    first.push_back(sample(logits, {.seed = 3}, i));
    again.push_back(sample(logits, {.seed = 3}, i));
    other.push_back(sample(logits, {.seed = 4}, i));
  }
  CHECK(first == again);
  CHECK(first != other);
}

TEST_CASE("logits that are not finite are refused", "[sampler]") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    CHECK_THROWS_AS(sample(std::vector<float>{1, bad, 2}, {}, 0), std::runtime_error);
    CHECK_THROWS_AS(sample(std::vector<float>{1, bad, 2}, {.temperature = 0}, 0), std::runtime_error);
  }
}
