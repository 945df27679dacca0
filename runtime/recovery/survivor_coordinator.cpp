// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_coordinator.hpp"

#include <fmt/format.h>

#include "failure/failure.hpp"
#include "log.hpp"
#include "protocol/messages.hpp"

namespace muster::control {

SurvivorCoordinator::SurvivorCoordinator(SurvivorNetwork& network, RecoveryConfig config,
                                         const std::vector<std::uint8_t>& mine)
    : network_(network), config_(std::move(config)) {
  payloads_[config_.rank] = mine;
  network_.accept([this](int rank, const std::shared_ptr<Channel>& channel) { admit(rank, channel); });
  for (int rank = 0; rank < static_cast<int>(config_.names.size()); ++rank)
    if (rank != config_.rank && !config_.ended.contains(rank) && !config_.silent.contains(rank)) watch(rank);
}

SurvivorPayloads SurvivorCoordinator::run(const Deadline& deadline) {
  network_.run_until(deadline.when(), [this] { return complete(); });
  done_ = true;
  if (!has_quorum()) {
    Failure const failure{
        ErrorCode::lost_rank, config_.rank,
        fmt::format("shrink: {} of {} ranks are left here, too few to go on: the other ranks may be cut off "
                    "and go on without these; missing: {}",
                    payloads_.size(), config_.names.size(), describe_missing())};
    send_and_close(encode(failure));
    throw Error(failure.code, failure.text);
  }
  send_and_close(encode(protocol::Survivors{{payloads_.begin(), payloads_.end()}}));
  return payloads_;
}

void SurvivorCoordinator::admit(int rank, const std::shared_ptr<Channel>& channel) {
  if (auto const old = channels_.extract(rank)) old.mapped()->close();
  channels_.emplace(rank, channel);
  channel->start([this, rank](const Message& message) { on_message(rank, message); },
                 [this, rank](const std::string&) {
                   if (done_) return;
                   channels_.erase(rank);
                   payloads_.erase(rank);
                   watch(rank);
                 },
                 std::chrono::milliseconds{0});
}

void SurvivorCoordinator::on_message(int rank, const Message& message) {
  if (protocol::type_of(message) != protocol::Survivor::type) return;
  auto const survivor = protocol::decode<protocol::Survivor>(message);
  payloads_[rank] = survivor.payload;
  for (int const other : survivor.ended) {
    if (payloads_.contains(other)) continue;
    config_.ended.insert(other);
    network_.unwatch(other);
  }
  config_.ended.erase(rank);
  config_.silent.erase(rank);
  network_.unwatch(rank);
  log::debug("shrink: {} is here", config_.names[static_cast<std::size_t>(rank)]);
}

void SurvivorCoordinator::watch(int rank) {
  network_.watch(rank, [this, rank](ProcessState state) {
    (state == ProcessState::ended ? config_.ended : config_.silent).insert(rank);
  });
}

bool SurvivorCoordinator::complete() const {
  for (int rank = 0; rank < static_cast<int>(config_.names.size()); ++rank)
    if (!payloads_.contains(rank) && !config_.ended.contains(rank) && !config_.silent.contains(rank))
      return false;
  return true;
}

bool SurvivorCoordinator::has_quorum() const {
  auto const possible = config_.names.size() - config_.ended.size();
  int lowest = 0;
  while (config_.ended.contains(lowest)) ++lowest;
  return 2 * payloads_.size() > possible || (2 * payloads_.size() == possible && payloads_.contains(lowest));
}

std::string SurvivorCoordinator::describe_missing() const {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(config_.names.size()); ++rank) {
    if (payloads_.contains(rank) || config_.ended.contains(rank)) continue;
    if (!text.empty()) text += ", ";
    text += config_.names[static_cast<std::size_t>(rank)];
  }
  return text;
}

void SurvivorCoordinator::send_and_close(const Message& message) {
  for (auto& [rank, channel] : channels_) channel->send(message);
  network_.close();
  for (auto& [rank, channel] : channels_) channel->close();
  channels_.clear();
  network_.flush();
}

}  // namespace muster::control
