// SPDX-License-Identifier: Apache-2.0
#include "control_plane/relay.hpp"

#include "protocol/messages.hpp"

namespace muster::control {

Relay::Relay(int leader, std::vector<int> ranks, std::chrono::milliseconds heartbeat_timeout,
             std::shared_ptr<const FlightRecorder> recorder, const Send& send_to_rank0,
             std::function<bool()> leaving)
    : leader_(leader),
      ranks_(std::move(ranks)),
      connections_(
          std::move(recorder), heartbeat_timeout,
          [send_to_rank0](int rank) { send_to_rank0(encode(protocol::RankConnected{rank})); },
          [send_to_rank0](int rank, const Message& message) {
            send_to_rank0(encode(protocol::FromRank{rank, message}));
          },
          [send_to_rank0, leaving = std::move(leaving)](int rank, const DisconnectCause& cause) {
            if (leaving()) return;
            send_to_rank0(encode(protocol::RankDisconnected{rank, cause.text, cause.confirmed_dead}));
          }) {}

bool Relay::forward(const std::vector<int>& ranks, const Message& message) {
  bool mine = false;
  for (int const rank : ranks) {
    if (rank == leader_) {
      mine = true;
    } else {
      connections_.send(rank, message);
    }
  }
  return mine;
}

void Relay::broadcast(const Message& message) {
  for (int const rank : ranks_) connections_.send(rank, message);
}

}  // namespace muster::control
