// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "recovery/recovery_config.hpp"
#include "recovery/survivor_network.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::control {

/// A SurvivorNetwork of TCP connections. `acceptor` listens on `io` already, and is not open.
class SocketSurvivorNetwork final : public SurvivorNetwork {
 public:
  SocketSurvivorNetwork(asio::io_context& io, AuthenticatingAcceptor& acceptor, const RecoveryConfig& config)
      : io_(io), acceptor_(acceptor), config_(config) {}

  Connection connect(int rank, const Deadline& deadline) override;
  void accept(OnConnect on_connect) override;
  void watch(int rank, OnState on_state) override;
  void unwatch(int rank) override { watches_.erase(rank); }
  void run_until(Clock::time_point until, const std::function<bool()>& done) override;
  void close() override;
  void flush() override;

 private:
  struct Watch;
  struct ProbeLimits;

  ProbeLimits probe_limits(int rank) const;
  // Whether the rank's process runs, and at which endpoint.
  std::pair<ProcessState, Endpoint> find_state(int rank, const Deadline& deadline);
  void probe(int rank, const std::weak_ptr<Watch>& watched);
  void on_answer(int rank, const std::weak_ptr<Watch>& watched, ProcessState state);
  // The watch's timer has one call at a time. It is dropped with the watch.
  void call_after(std::chrono::milliseconds wait, const std::shared_ptr<Watch>& watch,
                  std::function<void()> call);
  std::vector<Endpoint> endpoints(int rank) const;

  asio::io_context& io_;
  AuthenticatingAcceptor& acceptor_;
  RecoveryConfig config_;
  std::map<int, std::shared_ptr<Watch>> watches_;
};

}  // namespace muster::control
