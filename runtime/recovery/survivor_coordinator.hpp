// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "recovery/survivor_rendezvous.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {

/// The lowest survivor's part of a recovery: accepts the other survivors, probes whether missing ranks still
/// run, and closes the list.
class SurvivorCoordinator {
 public:
  SurvivorCoordinator(asio::io_context& io, AuthenticatingAcceptor& acceptor, RecoveryConfig config,
                      const std::vector<std::uint8_t>& mine);
  SurvivorRendezvous::Payloads run(const Deadline& deadline);

 private:
  struct Probe;

  void admit(int rank, Socket socket, const SessionKeys& keys);
  void on_message(int rank, const Message& message);
  void probe(int rank);
  void on_probe_done(const std::shared_ptr<Probe>& probe, const asio::error_code& error);
  bool complete() const;
  bool has_quorum() const;
  std::string describe_missing() const;
  void close_all();

  asio::io_context& io_;
  AuthenticatingAcceptor& acceptor_;
  RecoveryConfig config_;
  SurvivorRendezvous::Payloads payloads_;
  std::map<int, std::shared_ptr<SecureChannel>> channels_;
  std::map<int, std::shared_ptr<Probe>> probes_;
  bool done_ = false;
};

}  // namespace muster::control
