// SPDX-License-Identifier: Apache-2.0
#include "control_plane/gather_round.hpp"

#include <algorithm>
#include <atomic>

#include "control_plane/rank_ranges.hpp"

namespace muster::control {
namespace {

std::atomic<std::uint64_t> next_serial{1};

}  // namespace

GatherRound::GatherRound(asio::io_context& io, const protocol::Contribution& first, int ranks)
    : timer(io),
      warning(io),
      serial_(next_serial++),
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
  if (root_ < 0 || rank == root_) blobs_.emplace(rank, std::move(contribution.blob));
  return true;
}

void GatherRound::leave_out(int rank) {
  auto awaited = awaited_[static_cast<std::size_t>(rank)];
  if (!awaited) return;
  awaited = false;
  left_out_.insert(rank);
}

std::vector<int> GatherRound::members(bool awaited) const {
  std::vector<int> found;
  for (int const member : members_)
    if (awaited_[static_cast<std::size_t>(member)] == awaited && !left_out_.contains(member))
      found.push_back(member);
  std::sort(found.begin(), found.end());
  return found;
}

protocol::RoundResult GatherRound::result(const std::string& name) {
  protocol::RoundResult result{name, last_, {}};
  for (int const member : members_) {
    if (auto const found = blobs_.find(member); found != blobs_.end())
      result.blobs.push_back(std::move(found->second));
    else if (root_ < 0)
      result.blobs.emplace_back();
  }
  return result;
}

}  // namespace muster::control
