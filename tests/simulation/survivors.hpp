// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>

#include "recovery/survivor_network.hpp"
#include "session.hpp"

namespace simulator {

/// How one rank of a session reaches the others during a recovery, on its program's thread.
class SimulatedSurvivorNetwork final : public muster::control::SurvivorNetwork {
 public:
  SimulatedSurvivorNetwork(Simulator& simulator, Network& network, Session& session, int rank)
      : simulator_(simulator), network_(network), session_(session), rank_(rank) {}

  Connection connect(int rank, const muster::Deadline& deadline) override;
  void accept(OnConnect on_connect) override;
  void watch(int rank, OnState on_state) override;
  void unwatch(int rank) override { watches_.erase(rank); }
  void run_until(muster::Clock::time_point until, const std::function<bool()>& done) override;
  void close() override;
  void flush() override;

 private:
  void probe(int rank, const std::weak_ptr<OnState>& watch, Duration delay);
  Process& self() { return *session_.rank(rank_).process; }

  Simulator& simulator_;
  Network& network_;
  Session& session_;
  int rank_;
  std::map<int, std::shared_ptr<OnState>> watches_;
};

}  // namespace simulator
