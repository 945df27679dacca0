// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "compute/token.hpp"

namespace muster {

struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: the token with the largest one
  int top_k = 0;           ///< only the k likeliest tokens, and those as likely as the last of them; 0: all
  double top_p = 1;  ///< only the likeliest tokens that together reach this probability (arXiv 1904.09751)
  std::uint64_t seed = 1;
};

/// Draws a token, in the order temperature, top-k, top-p. Draw number `index` of a seed depends on nothing
/// but the logits. Of equally large logits, temperature 0 takes the first.
/// @throws std::runtime_error when a logit is not finite.
compute::Token sample(std::span<const float> logits, const SamplingOptions& options, std::uint64_t index);

}  // namespace muster
