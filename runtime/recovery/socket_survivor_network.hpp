// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <map>
#include <memory>

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
  void unwatch(int rank) override { probes_.erase(rank); }
  void run_until(Clock::time_point until, const std::function<bool()>& done) override;
  void close() override;
  void flush() override;

 private:
  struct Probe;

  void start_probe(const std::shared_ptr<Probe>& probe);
  void on_probe_done(const std::shared_ptr<Probe>& probe, const asio::error_code& error);
  void finish_watch(const std::shared_ptr<Probe>& probe, ProcessState state);
  bool is_current(const std::shared_ptr<Probe>& probe) const;
  std::vector<Endpoint> endpoints(int rank) const;

  asio::io_context& io_;
  AuthenticatingAcceptor& acceptor_;
  RecoveryConfig config_;
  std::map<int, std::shared_ptr<Probe>> probes_;
};

}  // namespace muster::control
