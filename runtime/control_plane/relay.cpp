// SPDX-License-Identifier: Apache-2.0
#include "control_plane/relay.hpp"

#include "protocol/messages.hpp"
#include "transport/handshake.hpp"

namespace muster::control {

Relay::Relay(asio::io_context& io, const Key& key, int leader, std::shared_ptr<const FlightRecorder> recorder)
    : leader_(leader),
      recorder_(std::move(recorder)),
      acceptor_(std::make_unique<AuthenticatingAcceptor>(io, local_name(key, leader))) {}

void Relay::open(const std::vector<int>& ranks, const Key& key, std::chrono::milliseconds heartbeat_timeout,
                 const Send& send_to_rank0, std::function<bool()> leaving) {
  ranks_ = ranks;
  connections_ = std::make_unique<Connections>(
      recorder_, [send_to_rank0](int rank) { send_to_rank0(encode(protocol::RankConnected{rank})); },
      [send_to_rank0](int rank, const Message& message) {
        send_to_rank0(encode(protocol::FromRank{rank, message}));
      },
      [send_to_rank0, leaving = std::move(leaving)](int rank, const DisconnectCause& cause) {
        if (leaving()) return;
        send_to_rank0(encode(protocol::RankDisconnected{rank, cause.text, cause.confirmed_dead}));
      });
  connections_->open(std::move(acceptor_), leader_, ranks, key, heartbeat_timeout);
}

bool Relay::forward(const std::vector<int>& ranks, const Message& message) {
  bool mine = false;
  for (int const rank : ranks) {
    if (rank == leader_) {
      mine = true;
    } else {
      connections_->send(rank, message);
    }
  }
  return mine;
}

void Relay::broadcast(const Message& message) {
  for (int const rank : ranks_) connections_->send(rank, message);
}

}  // namespace muster::control
