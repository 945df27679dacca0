// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/credential.hpp"
#include "roster/bootstrap.hpp"
#include "transport/handshake.hpp"

namespace muster::bootstrap {

/// How ranks find each other without PMIx: all connect to rank 0.
struct RendezvousConfig {
  const char* name = "";  ///< of the bootstrap
  std::string job;        ///< unique per job
  int rank = 0;
  int local_rank = 0;
  int size = 0;
  std::string rank0_host;                ///< rank 0's host, a name or an address
  std::vector<std::string> other_hosts;  ///< where rank 0 may be when it is not on rank0_host
  std::vector<std::uint16_t> ports;      ///< rank 0 listens on the first free one, the other ranks try all
  std::string host_socket;  ///< UNIX socket of the host leader; empty: each rank connects to rank 0
  std::string local_name;   ///< of a UNIX socket instead of ports, when all ranks are on one host
  std::shared_ptr<CredentialCodec> codec;  ///< how rank 0 sends the job's key; null: it is `key`
  std::optional<control::Key> key;         ///< the user's; with a codec, mixed into the one that rank 0 sends
  std::vector<std::string> host_of;        ///< by rank, as far as known before the rendezvous
  bool tasks_start_together = false;       ///< the launcher starts all ranks of a host together
  std::function<bool()> interrupted{};     ///< ends the rendezvous with an error soon after it returns true
};

/// How often `interrupted` is called.
inline constexpr std::chrono::milliseconds interrupt_interval{50};

std::unique_ptr<Bootstrap> make_rendezvous_bootstrap(RendezvousConfig config);

/// Rank 0's part: receives every rank's record and sends all records to all ranks.
/// @throws Error: deadline (names the missing ranks), environment (two processes claim one rank, or another
/// size), lost_rank, system.
std::vector<JoinRecord> run_rendezvous_server(const RendezvousConfig& config, const JoinRecord& mine,
                                              const Deadline& deadline);

/// Another rank's part.
/// @throws Error: rank 0's, as reported elsewhere; deadline when rank 0 cannot be reached. One rank per host
/// reports the latter.
std::vector<JoinRecord> run_rendezvous_client(const RendezvousConfig& config, const JoinRecord& mine,
                                              const Deadline& deadline);

}  // namespace muster::bootstrap
