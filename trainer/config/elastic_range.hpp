// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include "config/options.hpp"

namespace muster {

/// The value of --elastic.
struct ElasticRange {
  int least = 0;  ///< ranks with which a run goes on after a loss; 0: a loss ends it
  /// Ranks that train. Those that were started beyond it wait as spares.
  int most = std::numeric_limits<int>::max();
};

/// Reads "MIN" or "MIN:MAX"; nothing when `text` is none, or a MIN of 0 has a MAX.
std::optional<ElasticRange> parse_elastic_range(std::string_view text);
/// That of a parsed command line.
ElasticRange elastic_range(const Options& options);

}  // namespace muster
