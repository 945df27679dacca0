// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic_language.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/random_stream.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

constexpr std::uint64_t total_count = std::uint64_t{1} << 32;
/// Streams of the seed's generator.
constexpr std::uint64_t probability_stream = 1, text_stream = 2;

/// Number of states: symbols^order.
std::uint64_t count_states(int symbols, int order) {
  std::uint64_t states = 1;
  const auto base = static_cast<std::uint64_t>(std::max(symbols, 0));
  for (int i = 0; i < order && states <= Language::max_probabilities; ++i) states *= base;
  if (symbols < 2 || order < 1 || states > Language::max_probabilities / base) {
    throw Error(
        ErrorCode::usage,
        fmt::format("--symbols {} and --order {}: at least 2 and 1 are needed, and at most {} probabilities "
                    "(symbols to the power of order + 1): give less of one",
                    symbols, order, Language::max_probabilities));
  }
  return states;
}

/// Converts weights to integers above 0 with the sum 2^32, and writes their cumulative sums.
void to_cumulative_counts(std::vector<double>& weights, std::uint64_t* cumulative) {
  double total = 0;
  for (const double weight : weights) total += weight;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    cumulative[i] = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(weights[i] / total * 0x1p32));
    sum += cumulative[i];
  }
  // The most likely symbol absorbs the rounding difference, at most one per symbol.
  const auto likeliest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  cumulative[likeliest] += total_count - sum;
  for (std::size_t i = 1; i < weights.size(); ++i) cumulative[i] += cumulative[i - 1];
}

}  // namespace

Language::Language(int symbols, int order, std::uint64_t seed)
    : symbols_(symbols), order_(order), seed_(seed), states_(count_states(symbols, order)) {
  // Log-normal weights: a few likely symbols per state and many rare ones, as in a text.
  constexpr double spread = 2;
  RandomStream rng(seed, probability_stream);
  std::vector<double> weights(static_cast<std::size_t>(symbols));
  cumulative_.resize(states_ * weights.size());
  for (std::uint64_t state = 0; state < states_; ++state) {
    for (double& weight : weights) weight = std::exp(spread * rng.normal());
    to_cumulative_counts(weights, cumulative_.data() + state * weights.size());
  }
}

double Language::probability(std::uint64_t state, std::uint64_t symbol) const {
  const std::uint64_t* row = cumulative_.data() + state * static_cast<std::uint64_t>(symbols_);
  return static_cast<double>(row[symbol] - (symbol > 0 ? row[symbol - 1] : 0)) * 0x1p-32;
}

std::vector<double> Language::stationary_distribution() const {
  const auto symbols = static_cast<std::uint64_t>(symbols_);
  std::vector<double> now(states_, 1.0 / static_cast<double>(states_)), next(states_);
  // It converges because every probability is above 0; usually in about ten iterations.
  for (int round = 0; round < 100'000; ++round) {
    std::fill(next.begin(), next.end(), 0.0);
    for (std::uint64_t state = 0; state < states_; ++state) {
      for (std::uint64_t symbol = 0; symbol < symbols; ++symbol)
        next[next_state(state, symbol)] += now[state] * probability(state, symbol);
    }
    double change = 0;
    for (std::uint64_t state = 0; state < states_; ++state) change += std::abs(next[state] - now[state]);
    now.swap(next);
    if (change < 1e-14) break;
  }
  return now;
}

double Language::entropy_rate() const {
  const auto distribution = stationary_distribution();
  double rate = 0;
  for (std::uint64_t state = 0; state < states_; ++state) {
    double entropy = 0;
    for (std::uint64_t symbol = 0; symbol < static_cast<std::uint64_t>(symbols_); ++symbol) {
      const double p = probability(state, symbol);
      entropy -= p * std::log(p);
    }
    rate += distribution[state] * entropy;
  }
  return rate;
}

double Language::surprisal(const compute::Token* last, compute::Token next) const {
  std::uint64_t state = 0;
  for (int i = 0; i < order_; ++i) state = next_state(state, last[i]);
  return -std::log(probability(state, next));
}

std::vector<compute::Token> Language::generate(std::uint64_t count) const {
  const auto symbols = static_cast<std::uint64_t>(symbols_);
  std::vector<compute::Token> text(count);
  RandomStream rng(seed_, text_stream);
  std::uint64_t state = 0;
  for (auto& token : text) {
    const std::uint64_t* row = cumulative_.data() + state * symbols;
    const std::uint64_t drawn = rng.bits() >> 32;
    const auto symbol = static_cast<std::uint64_t>(std::upper_bound(row, row + symbols, drawn) - row);
    token = static_cast<compute::Token>(symbol);
    state = next_state(state, symbol);
  }
  return text;
}

}  // namespace muster::data
