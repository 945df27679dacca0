// SPDX-License-Identifier: Apache-2.0
#include "control_plane/gather_round.hpp"

#include "control_plane/rank_ranges.hpp"
#include "deadline.hpp"

namespace muster::control {

Message to_message(const Contribution& contribution) {
  Message message{{"is", "arrive"},
                  {"name", contribution.name},
                  {"root", contribution.root},
                  {"ms", contribution.wait.count()},
                  {"last", contribution.last},
                  {"blob", Message::binary(contribution.blob)}};
  if (!contribution.members.is_null()) message["members"] = contribution.members;
  return message;
}

Contribution parse_contribution(const Message& message) {
  return {message.at("name").get<std::string>(),
          message.contains("members") ? message.at("members") : Message(),
          message.at("root").get<int>(),
          Deadline(std::chrono::milliseconds(message.at("ms").get<std::int64_t>())).length(),
          message.at("last").get<bool>(),
          message.at("blob").get_binary()};
}

GatherRound::GatherRound(asio::io_context& io, const Contribution& first, int ranks)
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

bool GatherRound::add(int rank, Contribution contribution) {
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

Message GatherRound::result(const std::string& name) {
  Message blobs = Message::array();
  for (int const member : members_)
    if (auto const found = blobs_.find(member); found != blobs_.end())
      blobs.push_back(Message::binary(std::move(found->second)));
  return {{"is", "done"}, {"name", name}, {"last", last_}, {"blobs", std::move(blobs)}};
}

}  // namespace muster::control
