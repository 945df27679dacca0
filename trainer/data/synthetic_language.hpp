// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compute/token.hpp"

namespace muster::data {

/// A language in which the probability of the next symbol depends on the last `order` symbols. Probabilities
/// are multiples of 2^-32, all above 0, drawn from a seed. The entropy rate is known exactly, so no model's
/// mean loss over many symbols is below it.
class Language {
 public:
  /// Largest symbols^(order + 1).
  static constexpr std::uint64_t max_probabilities = std::uint64_t{1} << 24;

  /// @throws muster::Error(ErrorCode::usage) unless symbols >= 2, order >= 1 and symbols^(order + 1) <=
  /// max_probabilities.
  Language(int symbols, int order, std::uint64_t seed);

  int symbols() const noexcept { return symbols_; }
  int order() const noexcept { return order_; }
  /// Nats per symbol: the entropy of the next symbol in each state, weighted by the stationary distribution
  /// (Shannon 1948, theorem 5's source). The distribution is iterated until it changes by less than 1e-14.
  double entropy_rate() const;
  /// -log of the probability of `next` after the last `order` symbols, nats.
  double surprisal(const compute::Token* last, compute::Token next) const;

  /// Generates the first `count` symbols of the text. The first ones are drawn as if symbols 0 preceded them.
  std::vector<compute::Token> generate(std::uint64_t count) const;

 private:
  std::vector<double> stationary_distribution() const;
  double probability(std::uint64_t state, std::uint64_t symbol) const;
  /// The state after `state` and `symbol`.
  std::uint64_t next_state(std::uint64_t state, std::uint64_t symbol) const {
    return (state * static_cast<std::uint64_t>(symbols_) + symbol) % states_;
  }

  int symbols_, order_;
  std::uint64_t seed_, states_;
  std::vector<std::uint64_t>
      cumulative_;  ///< [states, symbols]: 2^32 * probability of this symbol or a lower one
};

}  // namespace muster::data
