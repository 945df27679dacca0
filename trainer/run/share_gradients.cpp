// SPDX-License-Identifier: Apache-2.0
#include "run/share_gradients.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace muster {

void share_gradients(Communicator left, Strategy* strategy, std::int64_t ended) {
  const std::int64_t mine =
      strategy != nullptr ? ended + static_cast<std::int64_t>(strategy->in_flight()) : -1;
  std::vector<std::int64_t> all(static_cast<std::size_t>(left.size()));
  left.all_gather(std::span<const std::int64_t>(&mine, 1), std::span(all));
  const auto newest = std::max_element(all.begin(), all.end());
  const auto from = static_cast<int>(newest - all.begin());
  for (int rank = 0; rank < left.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] < 0 || all[static_cast<std::size_t>(rank)] == *newest) continue;
    if (left.rank() == from) strategy->send_gradients(left, rank);
    if (left.rank() == rank) strategy->update_with_gradients(left, from);
  }
}

}  // namespace muster
