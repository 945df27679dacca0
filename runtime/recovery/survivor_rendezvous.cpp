// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_rendezvous.hpp"

#include <deque>

#include "recovery/process_probe.hpp"
#include "recovery/recovery.hpp"
#include "recovery/socket_survivor_network.hpp"

namespace muster::control {

std::vector<ProcessState> SurvivorRendezvous::find_states(const std::vector<std::vector<Endpoint>>& processes,
                                                          std::chrono::milliseconds wait, int connections) {
  std::vector<ProcessState> states(processes.size(), ProcessState::unknown);
  asio::io_context io;
  std::deque<ProcessProbe> probes;
  for (std::size_t p = 0; p < processes.size(); ++p)
    probes.emplace_back(io, processes[p], connections,
                        [&states, p](ProcessState state, std::size_t) { states[p] = state; });
  io.run_for(wait);
  return states;
}

SurvivorRendezvous::Payloads SurvivorRendezvous::run(RecoveryConfig config,
                                                     const std::vector<std::uint8_t>& mine,
                                                     const Deadline& deadline) {
  SocketSurvivorNetwork network(io_, acceptor_, config);
  return run_recovery(network, std::move(config), mine, deadline);
}

}  // namespace muster::control
