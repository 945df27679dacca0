// SPDX-License-Identifier: Apache-2.0
#include "control_plane/connections.hpp"

#include <set>

#include "log.hpp"

namespace muster::control {

void Connections::open(std::unique_ptr<AuthenticatingAcceptor> gate, const std::vector<int>& ranks, const Key& key,
                       std::chrono::milliseconds heartbeat_timeout) {
  heartbeat_timeout_ = heartbeat_timeout;
  auto& opened = *gates_.emplace_back(std::move(gate));
  std::set<std::uint32_t> const allowed(ranks.begin(), ranks.end());
  opened.open(
      static_cast<int>(ranks.size()), [allowed](std::uint32_t rank) { return allowed.contains(rank); }, key,
      [this](int rank, Socket socket, const SessionKeys& keys) { admit(rank, std::move(socket), keys); });
}

void Connections::admit(int rank, Socket socket, const SessionKeys& keys) {
  // A rank that said something comes once. Before that it may come again: it gave up a connection whose
  // welcome took too long.
  if (spoken_.contains(rank)) return;
  if (auto const old = channels_.extract(rank)) old.mapped()->close();
  log::debug("control: rank {} connected", rank);
  auto channel = std::make_shared<SecureChannel>(std::move(socket), keys, own_);
  channels_.emplace(rank, channel);
  channel->start(
      [this, rank](const Message& message) {
        spoken_.insert(rank);
        on_message_(rank, message);
      },
      [this, rank](const std::string& reason) { end(rank, reason); }, heartbeat_timeout_);
  on_come_(rank);
}

void Connections::end(int rank, const std::string& reason) {
  auto const ended = channels_.extract(rank);
  if (spoken_.contains(rank)) on_loss_(rank, ended.mapped()->ending(reason));
}

void Connections::send(int rank, const Message& message) {
  if (auto const found = channels_.find(rank); found != channels_.end()) {
    auto const channel = found->second;  // its end takes it out of the list
    channel->send(message);
  }
}

void Connections::send_heartbeat() {
  auto const channels = channels_;  // the end of one takes it out of the list
  for (const auto& [rank, channel] : channels) channel->send_heartbeat();
}

void Connections::close() {
  for (auto& gate : gates_) gate->close();
  auto const channels = std::move(channels_);
  channels_.clear();
  for (auto& [rank, channel] : channels) channel->close();
}

}  // namespace muster::control
