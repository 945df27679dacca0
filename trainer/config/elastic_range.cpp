// SPDX-License-Identifier: Apache-2.0
#include "config/elastic_range.hpp"

#include <string>

#include "config/option_validators.hpp"

namespace muster {

std::optional<ElasticRange> parse_elastic_range(std::string_view text) {
  constexpr int limit = 1 << 20;
  ElasticRange range;
  const std::size_t colon = text.find(':');
  if (!parse_number(std::string(text.substr(0, colon)), range.least) || range.least < 0 ||
      range.least > limit)
    return std::nullopt;
  if (colon == std::string_view::npos) return range;
  const bool fits = parse_number(std::string(text.substr(colon + 1)), range.most) && range.least > 0 &&
                    range.most >= range.least && range.most <= limit;
  return fits ? std::optional(range) : std::nullopt;
}

ElasticRange elastic_range(const Options& options) {
  return parse_elastic_range(options.elastic).value_or(ElasticRange{});
}

}  // namespace muster
