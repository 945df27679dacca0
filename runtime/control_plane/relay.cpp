// SPDX-License-Identifier: Apache-2.0
#include "control_plane/relay.hpp"

#include "transport/handshake.hpp"

namespace muster::control {

Relay::Relay(asio::io_context& io, const Key& key, int leader, std::shared_ptr<const FlightRecorder> own)
    : leader_(leader), own_(std::move(own)), gate_(std::make_unique<AuthenticatingAcceptor>(io, local_name(key, leader))) {}

void Relay::open(const std::vector<int>& ranks, const Key& key, std::chrono::milliseconds heartbeat_timeout,
                 Send to_rank_0, std::function<bool()> leaving) {
  ranks_ = ranks;
  connections_ = std::make_unique<Connections>(
      own_,
      [to_rank_0](int rank) {
        to_rank_0({{"is", "came"}, {"rank", rank}});
      },
      [to_rank_0](int rank, const Message& message) {
        to_rank_0({{"is", "from"}, {"rank", rank}, {"message", message}});
      },
      [to_rank_0, leaving = std::move(leaving)](int rank, const DisconnectCause& ending) {
        if (leaving()) return;
        to_rank_0({{"is", "lost"}, {"rank", rank}, {"how", ending.text}, {"certain", ending.certain}});
      });
  connections_->open(std::move(gate_), ranks, key, heartbeat_timeout);
}

bool Relay::hand_on(const std::vector<int>& ranks, const Message& message) {
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

void Relay::tell_all(const Message& message) {
  for (int const rank : ranks_) connections_->send(rank, message);
}

}  // namespace muster::control
