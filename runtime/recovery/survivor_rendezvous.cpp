// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_rendezvous.hpp"

#include <algorithm>
#include <deque>

#include "recovery/recovery.hpp"
#include "recovery/socket_survivor_network.hpp"

namespace muster::control {

std::vector<ProcessState> SurvivorRendezvous::find_states(const std::vector<std::vector<Endpoint>>& processes,
                                                          std::chrono::milliseconds wait, int connections) {
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
  SocketSurvivorNetwork network(io_, acceptor_, config);
  return run_recovery(network, std::move(config), mine, deadline);
}

}  // namespace muster::control
