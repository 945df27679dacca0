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
#include "transport/secure_channel.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::control {

/// The lowest rank's part of a reunion: takes the others in, looks whether those that do not come still run,
/// and closes the list.
class ReunionLeader {
 public:
  ReunionLeader(asio::io_context& io, AuthenticatingAcceptor& gate, RecoveryConfig plan, const std::vector<std::uint8_t>& mine);
  SurvivorRendezvous::Words run(const Deadline& deadline);

 private:
  struct Probe;

  void admit(int rank, Socket socket, const SessionKeys& keys);
  void hear(int rank, const Message& message);
  void probe(int rank);
  void concluded(const std::shared_ptr<Probe>& probe, const asio::error_code& error);
  bool complete() const;
  bool are_enough() const;
  std::string those_missing() const;
  void say_goodbye();

  asio::io_context& io_;
  AuthenticatingAcceptor& gate_;
  RecoveryConfig plan_;
  SurvivorRendezvous::Words words_;
  std::map<int, std::shared_ptr<SecureChannel>> channels_;
  std::map<int, std::shared_ptr<Probe>> probes_;
  bool done_ = false;
};

}  // namespace muster::control
