// SPDX-License-Identifier: Apache-2.0
#include "recovery/recovery.hpp"

#include <optional>

#include "failure/failure.hpp"
#include "log.hpp"
#include "protocol/messages.hpp"
#include "recovery/survivor_coordinator.hpp"

namespace muster::control {
namespace {

// The coordinator keeps the deadline.
constexpr std::chrono::milliseconds coordinator_grace{3000};

// Joins the coordinator at the other end of `channel`. Returns nothing when that process has ended.
// @throws Error: the coordinator's
std::optional<SurvivorPayloads> join_coordinator(SurvivorNetwork& network, Channel& channel,
                                                 const RecoveryConfig& config,
                                                 const std::vector<std::uint8_t>& mine,
                                                 const Deadline& deadline) {
  std::optional<SurvivorPayloads> payloads;
  std::optional<Failure> failure;
  bool lost = false;
  channel.start(
      [&](const Message& message) {
        auto const& type = protocol::type_of(message);
        if (type == Failure::type) failure = protocol::decode<Failure>(message);
        if (type != protocol::Survivors::type) return;
        auto const survivors = protocol::decode<protocol::Survivors>(message);
        payloads.emplace(survivors.payloads.begin(), survivors.payloads.end());
      },
      [&](const std::string&) { lost = true; }, std::chrono::milliseconds{0});
  channel.send(encode(protocol::Survivor{mine, {config.ended.begin(), config.ended.end()}}));
  network.run_until(deadline.when() + coordinator_grace, [&] { return payloads || failure || lost; });
  channel.close();
  network.flush();
  if (failure) throw Error(failure->code, failure->text, failure->reporter != config.rank);
  return payloads;
}

// The ranks of an unreachable host cost a second once, and not each of them and twice.
void add_silent_host(RecoveryConfig& config, int unreachable) {
  const auto& host = config.hosts[static_cast<std::size_t>(unreachable)];
  for (int rank = 0; rank < static_cast<int>(config.hosts.size()); ++rank)
    if (config.hosts[static_cast<std::size_t>(rank)] == host && !config.ended.contains(rank))
      config.silent.insert(rank);
}

// Joins `candidate` as the coordinator. Returns nothing when it has ended or cannot be reached, and at the
// deadline.
// @throws Error: the coordinator's
std::optional<SurvivorPayloads> join_candidate(SurvivorNetwork& network, int candidate,
                                               RecoveryConfig& config, const std::vector<std::uint8_t>& mine,
                                               const Deadline& deadline) {
  while (true) {
    auto const [channel, state] = network.connect(candidate, deadline);
    if (!channel && state == ProcessState::unknown) add_silent_host(config, candidate);
    if (!channel) return std::nullopt;
    auto payloads = join_coordinator(network, *channel, config, mine, deadline);
    if (payloads || deadline.passed()) return payloads;
    // The rank has ended, which the next connect() notices, or it was too slow.
    network.run_until(Clock::now() + SurvivorNetwork::retry_pause, [] { return false; });
  }
}

}  // namespace

SurvivorPayloads run_recovery(SurvivorNetwork& network, RecoveryConfig config,
                              const std::vector<std::uint8_t>& mine, const Deadline& deadline) {
  for (int candidate = 0; candidate < config.rank && !deadline.passed(); ++candidate) {
    if (config.ended.contains(candidate) || config.silent.contains(candidate)) continue;
    if (auto payloads = join_candidate(network, candidate, config, mine, deadline))
      return std::move(*payloads);
    log::debug("shrink: {} is not there", config.names[static_cast<std::size_t>(candidate)]);
  }
  return SurvivorCoordinator(network, std::move(config), mine).run(deadline);
}

}  // namespace muster::control
