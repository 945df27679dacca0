// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace simulator {

/// Ranks that a warning names.
struct NamedRanks {
  std::set<int> ranks;
  std::size_t more = 0;  ///< that it does not name
  std::string did;       ///< what they did last; empty if it does not say
  std::size_t count() const { return ranks.size() + more; }
};

/// What a stall warning says.
struct StallWarning {
  std::string call;  ///< as in SessionRecord::calls
  std::chrono::milliseconds waited{};
  std::optional<int> waiting;           ///< the rank that waits longest; of an operation
  std::vector<NamedRanks> not_entered;  ///< one entry for each last call
  NamedRanks silent;                    ///< ranks that do not answer
  std::size_t members = 0;              ///< of a round on the control plane
};

/// Nothing when `text` is no stall warning.
std::optional<StallWarning> parse_stall_warning(const std::string& text);

}  // namespace simulator
