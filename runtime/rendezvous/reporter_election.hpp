// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <memory>
#include <thread>

#include "deadline.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::bootstrap {

/// Elects the one host that reports that rank 0 cannot be reached: the first host in step order that has a
/// live rank. After its deadline, one rank per host listens at the job's ports, which rank 0 no longer needs,
/// so that later hosts see that it is alive. Where the hosts are unknown, they report one after the other,
/// and the launcher may end the later ones before.
class ReporterElection {
 public:
  /// Listens on the first free port, in its own thread.
  explicit ReporterElection(const RendezvousConfig& config);
  ~ReporterElection();
  ReporterElection(const ReporterElection&) = delete;
  ReporterElection& operator=(const ReporterElection&) = delete;

  /// Queries the hosts before this one, then waits for queries of those after it. `simultaneous`: all hosts
  /// noticed at the same time, rather than each at its own deadline.
  bool is_elected(bool simultaneous);

 private:
  bool is_host_alive(const std::string& host) const;

  const RendezvousConfig& config_;
  asio::io_context io_;
  std::unique_ptr<KeyServer> key_server_;                           // with a codec
  std::unique_ptr<control::AuthenticatingAcceptor> rank_acceptor_;  // with a key that all ranks know
  std::thread thread_;
};

}  // namespace muster::bootstrap
