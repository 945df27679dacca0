// SPDX-License-Identifier: Apache-2.0
#include "control_plane/rank_ranges.hpp"

#include <numeric>

#include "muster/error.hpp"

namespace muster::control {

Message encode_ranks(const std::vector<int>& members, int ranks) {
  Message runs = Message::array();
  for (std::size_t at = 0; at < members.size();) {
    int const first = members[at];
    int const step = at + 1 < members.size() ? members[at + 1] - first : 1;
    std::size_t end = at + 1;
    while (end < members.size() && members[end] - members[end - 1] == step) ++end;
    runs.push_back({first, step, end - at});
    at = end;
  }
  if (runs.size() == 1 && runs.front() == Message{0, 1, ranks}) return nullptr;
  return runs;
}

std::vector<int> decode_ranks(const Message& runs, int ranks) {
  std::vector<int> members;
  if (runs.is_null()) {
    members.resize(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
  std::vector<bool> seen(static_cast<std::size_t>(ranks));
  for (const auto& run : runs) {
    auto rank = run.at(0).get<std::int64_t>();
    auto const step = run.at(1).get<std::int64_t>();
    for (auto left = run.at(2).get<std::int64_t>(); left > 0; --left) {
      if (rank < 0 || rank >= ranks || seen[static_cast<std::size_t>(rank)])
        throw Error(ErrorCode::system, "a group has a rank outside the job, or one rank twice");
      seen[static_cast<std::size_t>(rank)] = true;
      members.push_back(static_cast<int>(rank));
      if (left > 1 && __builtin_add_overflow(rank, step, &rank))
        throw Error(ErrorCode::system, "a group has a rank outside the job, or one rank twice");
    }
  }
  return members;
}

}  // namespace muster::control
