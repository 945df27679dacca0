// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth_failure.hpp"
#include "rendezvous/credential.hpp"
#include "roster/bootstrap.hpp"
#include "transport/handshake.hpp"

namespace muster::bootstrap {

/// Where ranks meet whom no PMIx introduces: all come to rank 0.
struct RendezvousConfig {
  const char* name = "";  ///< of the membership
  std::string job;        ///< two jobs never have the same
  int rank = 0;
  int local_rank = 0;
  int size = 0;
  std::string leader_host;               ///< rank 0's host, a name or an address
  std::vector<std::string> other_hosts;  ///< where rank 0 may be when it is not there
  std::vector<std::uint16_t> ports;  ///< rank 0 listens on the first that is free, the others try them all
  std::string host_socket;     ///< UNIX socket where the ranks of a host meet; empty: each goes to rank 0
  std::string local_name;      ///< of a UNIX socket in place of the ports; all ranks are on one host
  std::shared_ptr<CredentialCodec> seal;  ///< how rank 0 hands out the key; null: `key` is known to all
  control::Key key{};
  std::vector<std::string> host_of;    ///< by rank, as far as known before the meeting
  bool started_together = false;       ///< the launcher starts all ranks of a host together
  bool keeps_what_was_told = false;    ///< as mark_failure_reported(): no other job of the user's has this job's name
  std::vector<std::string> hosts;      ///< of the job, in one order for all ranks; empty: not known
  int host_index = -1;                 ///< this one among them; -1: not known
  int turn = 0;                        ///< where hosts are not known: how many speak before, without rank 0
  AuthFailure obstacle = AuthFailure::none;  ///< this rank cannot authenticate itself
  std::string trouble;                 ///< the same in words, for its own line
};

/// The membership of those that meet as planned.
std::unique_ptr<Bootstrap> meeting(RendezvousConfig plan);

/// Rank 0's part: waits for everybody's record and gives all of them to everybody.
/// @throws Error: deadline (names the missing), usage (two processes claim one rank), environment (another
/// size, or the plan's obstacle, once the other hosts know of it), lost_rank, system.
std::vector<JoinRecord> lead_meeting(const RendezvousConfig& plan, const JoinRecord& mine, const Deadline& deadline);

/// Another rank's part.
/// @throws what rank 0 throws, as repeated; deadline when rank 0 cannot be reached.
std::vector<JoinRecord> come_to_meeting(const RendezvousConfig& plan, const JoinRecord& mine, const Deadline& deadline);

}  // namespace muster::bootstrap
