// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "failure/failure.hpp"
#include "log.hpp"
#include "recovery/survivor_coordinator.hpp"
#include "transport/connect.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How long to try an address that does not answer at all.
constexpr milliseconds reachability_timeout{3000};
// The coordinator keeps the deadline.
constexpr milliseconds coordinator_grace{3000};

// A rank that joins another one.
class SurvivorClient {
 public:
  SurvivorClient(asio::io_context& io, const RecoveryConfig& config, const std::vector<std::uint8_t>& mine)
      : io_(io), config_(config), mine_(mine) {}

  // Returns nothing when `candidate` has ended or cannot be reached.
  std::optional<SurvivorRendezvous::Payloads> join_coordinator(int candidate, const Deadline& deadline) {
    auto const index = static_cast<std::size_t>(candidate);
    auto const key = purpose_key(config_.key, purpose::recovery, candidate);
    for (const auto& endpoint : parse_endpoints(config_.addresses[index], config_.ports[index])) {
      if (probe(io_, endpoint, std::min(reachability_timeout, deadline.remaining()))) continue;
      try {
        // The candidate may start its own recovery much later; its acceptor already listens.
        auto [socket, keys] = connect_once(io_, config_.rank, {endpoint}, key, deadline);
        if (auto payloads =
                exchange_payloads(std::make_shared<SecureChannel>(std::move(socket), keys), deadline))
          return payloads;
      } catch (const Error& error) {
        if (failure_) throw;
        log::debug("shrink: {}: {}", config_.names[index], error.what());
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<SurvivorRendezvous::Payloads> exchange_payloads(const std::shared_ptr<SecureChannel>& channel,
                                                                const Deadline& deadline) {
    std::optional<SurvivorRendezvous::Payloads> payloads;
    bool lost = false;
    channel->start(
        [&](const Message& message) {
          auto const& type = protocol::type_of(message);
          if (type == Failure::type) failure_ = protocol::decode<Failure>(message);
          if (type != protocol::Survivors::type) return;
          auto const survivors = protocol::decode<protocol::Survivors>(message);
          payloads.emplace(survivors.payloads.begin(), survivors.payloads.end());
        },
        [&](const std::string&) { lost = true; });
    channel->send(encode(protocol::Survivor{mine_, {config_.ended.begin(), config_.ended.end()}}));
    auto const until = deadline.when() + coordinator_grace;
    io_.restart();
    while (!payloads && !failure_ && !lost && Deadline::Clock::now() < until) io_.run_one_until(until);
    channel->close();
    io_.restart();
    io_.run_for(milliseconds{1000});  // runs the cancelled handlers
    if (failure_) throw Error(failure_->code, failure_->text, failure_->reporter != config_.rank);
    return payloads;
  }

  asio::io_context& io_;
  const RecoveryConfig& config_;
  const std::vector<std::uint8_t>& mine_;
  std::optional<Failure> failure_;
};

}  // namespace

std::vector<ProcessState> SurvivorRendezvous::find_states(const std::vector<std::vector<Endpoint>>& processes,
                                                          milliseconds wait, int connections) {
  std::vector<ProcessState> states(processes.size(), ProcessState::unknown);
  auto undecided = static_cast<std::size_t>(std::count_if(
      processes.begin(), processes.end(), [](const auto& endpoints) { return !endpoints.empty(); }));
  asio::io_context io;
  std::deque<Socket> sockets;
  auto const decide = [&](std::size_t process, ProcessState state) {
    if (states[process] != ProcessState::unknown) return;
    states[process] = state;
    if (--undecided == 0) io.stop();
  };
  for (std::size_t p = 0; p < processes.size(); ++p) {
    for (std::size_t e = 0; e < processes[p].size(); ++e) {
      for (int i = 0; i < connections; ++i) {
        sockets.emplace_back(io).async_connect(processes[p][e],
                                               [&decide, p, e](const asio::error_code& error) {
                                                 // Further addresses may be those of a bridge that this host
                                                 // has, too.
                                                 if (!error) decide(p, ProcessState::running);
                                                 if (error == asio::error::connection_refused && e == 0)
                                                   decide(p, ProcessState::ended);
                                               });
      }
    }
  }
  if (undecided > 0) io.run_for(wait);
  return states;
}

SurvivorRendezvous::Payloads SurvivorRendezvous::run(RecoveryConfig config,
                                                     const std::vector<std::uint8_t>& mine,
                                                     const Deadline& deadline) {
  asio::io_context client_io;  // connections to acceptor_ wait until this rank is the coordinator
  for (int candidate = 0; candidate < config.rank && !deadline.passed(); ++candidate) {
    if (config.ended.contains(candidate) || config.silent.contains(candidate)) continue;
    if (auto payloads = SurvivorClient(client_io, config, mine).join_coordinator(candidate, deadline))
      return std::move(*payloads);
    log::debug("shrink: {} is not there", config.names[static_cast<std::size_t>(candidate)]);
  }
  return SurvivorCoordinator(io_, acceptor_, std::move(config), mine).run(deadline);
}

}  // namespace muster::control
