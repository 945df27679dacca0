// SPDX-License-Identifier: Apache-2.0
#include "control_plane/gather_round.hpp"

#include "control_plane/rank_ranges.hpp"

namespace muster::control {

GatherRound::GatherRound(asio::io_context& io, const protocol::Contribution& first, int ranks)
    : timer(io),
      warning(io),
      encoded_members_(first.members),
      members_(decode_ranks(first.members, ranks)),
      awaited_(static_cast<std::size_t>(ranks)),
      root_(first.root),
      last_(first.last),
      timeout_(first.wait) {
  for (int const member : members_) awaited_[static_cast<std::size_t>(member)] = true;
}

bool GatherRound::add(int rank, protocol::Contribution contribution) {
  auto awaited = awaited_[static_cast<std::size_t>(rank)];
  if (!awaited || contribution.root != root_ || contribution.members != encoded_members_) return false;
  awaited = false;
  ++arrived_;
  if (lowest_arrived_ < 0 || rank < lowest_arrived_) lowest_arrived_ = rank;
  if (root_ < 0 || rank == root_) blobs_.emplace(rank, std::move(contribution.blob));
  return true;
}

std::vector<int> GatherRound::missing() const {
  std::vector<int> missing;
  for (int const member : members_)
    if (awaited_[static_cast<std::size_t>(member)]) missing.push_back(member);
  return missing;
}

protocol::RoundResult GatherRound::result(const std::string& name) {
  protocol::RoundResult result{name, last_, {}};
  for (int const member : members_)
    if (auto const found = blobs_.find(member); found != blobs_.end())
      result.blobs.push_back(std::move(found->second));
  return result;
}

}  // namespace muster::control
