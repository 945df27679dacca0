// SPDX-License-Identifier: Apache-2.0
#include "training/non_finite.hpp"

#include <fmt/format.h>

#include "text/plural.hpp"

namespace muster {

std::string describe_non_finite(CollectiveErrors& collective_errors, const std::vector<Hello>& roster,
                                const StepResult& result) {
  const auto counts = collective_errors.gather(result.non_finite_samples.count());
  const auto begins = collective_errors.gather(result.non_finite_samples.begin);
  std::string first;
  std::int64_t others = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    first = fmt::format("on rank {} ({}), ", rank, roster.at(rank).host);
    first += counts[rank] == 1
                 ? fmt::format("sample {}", begins[rank])
                 : fmt::format("samples {} to {}", begins[rank], begins[rank] + counts[rank] - 1);
  }
  if (first.empty()) return "only in the sum over ranks";
  return others == 0 ? first : fmt::format("{}, and on {}", first, plural(others, "other rank"));
}

}  // namespace muster
