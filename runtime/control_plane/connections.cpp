// SPDX-License-Identifier: Apache-2.0
#include "control_plane/connections.hpp"

#include <set>

#include "log.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {

void Connections::open(std::unique_ptr<AuthenticatingAcceptor> acceptor, int leader,
                       const std::vector<int>& ranks, const Key& key) {
  auto& opened = *acceptors_.emplace_back(std::move(acceptor));
  std::set<std::uint32_t> const allowed(ranks.begin(), ranks.end());
  opened.open(
      static_cast<int>(ranks.size()), [allowed](std::uint32_t rank) { return allowed.contains(rank); },
      purpose_key(key, purpose::control_plane, leader),
      [this](int rank, Socket socket, const SessionKeys& keys) {
        admit(rank, std::make_shared<SecureChannel>(std::move(socket), keys, recorder_));
      });
}

void Connections::admit(int rank, std::shared_ptr<Channel> channel) {
  // A rank that sent a message has its final connection. Before that it may connect again, because it gives
  // up a connection whose handshake takes too long.
  if (identified_.contains(rank)) return;
  if (auto const old = channels_.extract(rank)) old.mapped()->close();
  log::debug("control: rank {} connected", rank);
  channels_.emplace(rank, channel);
  channel->start(
      [this, rank](const Message& message) {
        identified_.insert(rank);
        on_message_(rank, message);
      },
      [this, rank](const std::string& reason) { remove(rank, reason); }, heartbeat_timeout_);
  on_connect_(rank);
}

void Connections::remove(int rank, const std::string& reason) {
  auto const ended = channels_.extract(rank);
  if (identified_.contains(rank)) on_disconnect_(rank, ended.mapped()->disconnect_cause(reason));
  if (channels_.empty() && on_empty_) on_empty_();
}

void Connections::when_empty(std::function<void()> on_empty) {
  if (channels_.empty()) return on_empty();
  on_empty_ = std::move(on_empty);
}

void Connections::send(int rank, const Message& message) {
  if (auto const found = channels_.find(rank); found != channels_.end()) {
    auto const channel = found->second;  // disconnecting removes it from the map
    channel->send(message);
  }
}

void Connections::send_heartbeat() {
  auto const channels = channels_;  // a disconnect removes an element
  for (const auto& [rank, channel] : channels) channel->send_heartbeat();
}

void Connections::close() {
  for (auto& acceptor : acceptors_) acceptor->close();
  auto const channels = std::move(channels_);
  channels_.clear();
  for (auto& [rank, channel] : channels) channel->close();
}

}  // namespace muster::control
