// SPDX-License-Identifier: Apache-2.0
#include "control_plane/gather_round.hpp"

#include "control_plane/rank_ranges.hpp"
#include "deadline.hpp"

namespace muster::control {

Message to_message(const Arrival& arrival) {
  Message message{{"is", "arrive"},       {"name", arrival.name},
                  {"root", arrival.root}, {"ms", arrival.wait.count()},
                  {"last", arrival.last}, {"blob", Message::binary(arrival.blob)}};
  if (!arrival.members.is_null()) message["members"] = arrival.members;
  return message;
}

Arrival arrival_from(const Message& message) {
  return {message.at("name").get<std::string>(),
          message.contains("members") ? message.at("members") : Message(),
          message.at("root").get<int>(),
          Deadline(std::chrono::milliseconds(message.at("ms").get<std::int64_t>())).length(),
          message.at("last").get<bool>(),
          message.at("blob").get_binary()};
}

GatherRound::GatherRound(asio::io_context& io, const Arrival& first, int ranks)
    : timer(io),
      warning(io),
      runs_(first.members),
      members_(members_from(first.members, ranks)),
      awaited_(static_cast<std::size_t>(ranks)),
      root_(first.root),
      last_(first.last),
      length_(first.wait) {
  for (int const member : members_) awaited_[static_cast<std::size_t>(member)] = true;
}

bool GatherRound::take(int rank, Arrival arrival) {
  auto awaited = awaited_[static_cast<std::size_t>(rank)];
  if (!awaited || arrival.root != root_ || arrival.members != runs_) return false;
  awaited = false;
  ++arrived_;
  if (first_there_ < 0 || rank < first_there_) first_there_ = rank;
  if (root_ < 0 || rank == root_) blobs_.emplace(rank, std::move(arrival.blob));
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
