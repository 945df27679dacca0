// SPDX-License-Identifier: Apache-2.0
#include "control_plane/leader_connection.hpp"

#include "failure/ended_rank_watch.hpp"
#include "failure/failure.hpp"
#include "transport/connect.hpp"

namespace muster::control {

std::pair<Socket, SessionKeys> connect_to_own_leader(asio::io_context& io, int rank,
                                                     const ControlPlaneOptions& options,
                                                     const std::vector<std::string>& addresses,
                                                     std::uint16_t port, const Key& key,
                                                     const Deadline& deadline) {
  int const host_leader = options.host_leaders[static_cast<std::size_t>(rank)];
  bool const leads_host = host_leader == rank;
  auto const endpoints =
      leads_host ? parse_endpoints(addresses, port)
                 : std::vector{local_endpoint(options.local_sockets[static_cast<std::size_t>(host_leader)])};
  auto const leader_key = leads_host ? purpose_key(key, purpose::control_plane, 0)
                                     : purpose_key(options.host_key, purpose::control_plane, host_leader);
  EndedRankWatch ended_ranks(io);
  if (options.watches_ended_ranks)
    ended_ranks.watch(options.roster, {0, host_leader}, options.query_processes);
  auto const before_retry = [&] {
    if (auto const loss = ended_ranks.find_loss()) throw EndedRankError(*loss);
    if (options.before_retry) options.before_retry();
  };
  try {
    return connect_to_leader(io, rank, endpoints, leader_key, deadline, before_retry);
  } catch (const EndedRankError&) {
    throw;
  } catch (const Error& error) {
    // Rank 0 names the missing ranks. This rank reports only what rank 0 cannot: that rank 0 is lost.
    bool const reports = rank == reporter_when_rank0_lost(options.roster) && (host_leader == 0 || leads_host);
    throw Error(error.code(), error.what(), !reports);
  }
}

}  // namespace muster::control
