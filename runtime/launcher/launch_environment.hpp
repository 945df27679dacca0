// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/launcher_detection.hpp"

namespace muster::bootstrap {

/// What Slurm's variables say to a task of a step of several tasks.
struct SlurmStep {
  int rank = 0;
  int local_rank = 0;
  int size = 0;
  std::string job;                   ///< cluster, job, step and restart: no two jobs have the same
  std::vector<std::string> hosts;    ///< of the step, in Slurm's order
  int host_index = -1;               ///< of this task's host (SLURM_NODEID); -1: not said
  std::string leader_host;           ///< where rank 0 most likely is; in a heterogeneous step any may be it
  std::vector<std::string> host_of;  ///< by rank; empty where the distribution does not tell
  std::vector<std::uint16_t> ports;  ///< reserved with --resv-ports
};

/// Nothing outside of a step of several tasks.
/// @throws Error(ErrorCode::environment) when the variables contradict each other.
std::optional<SlurmStep> read_slurm_step(const GetEnv& variable);

/// What RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say, as torchrun sets them.
struct EnvRendezvous {
  int rank = 0;
  int local_rank = 0;  ///< LOCAL_RANK, 0 without it
  int local_size = 0;  ///< LOCAL_WORLD_SIZE, 0 when unknown
  int size = 0;
  std::string host;        ///< MASTER_ADDR
  std::uint16_t port = 0;  ///< MUSTER_PORT, else the one after MASTER_PORT, which is the framework's own
  std::string job;         ///< tells jobs apart that meet at one address
};

/// Nothing unless all four are set and there are several ranks.
/// @throws Error(ErrorCode::environment) when one of them is no number of the right range.
std::optional<EnvRendezvous> read_env_rendezvous(const GetEnv& variable);

/// True below torchrun: RANK and WORLD_SIZE are then the innermost launcher's, and the variables of PMIx and
/// Slurm belong to what started torchrun.
bool is_below_torchrun(const GetEnv& variable);

/// Why RANK and WORLD_SIZE cannot mean the job of `size` ranks in which another launcher made this process
/// `rank`: a launcher of its own may have started it. Nothing where they agree, are not set, or were set by
/// Muster's plugin for an outer task.
std::optional<Error> check_rank_consistency(const GetEnv& variable, int rank, int size);

/// "n[001-003,7]-ib,m" → its hosts, at most `limit` of them; empty for what is not a host list.
std::vector<std::string> expand_hostlist(const std::string& list, std::size_t limit = 1u << 20);
/// "12000-12003,12007" → its ports; empty for anything else.
std::vector<std::uint16_t> parse_port_list(const std::string& list);
/// Ports for a job outside the ephemeral range and below the ports of services that Kubernetes gives out
/// (30000): 10000 to 29999, the likeliest first, the same for every rank.
std::vector<std::uint16_t> derive_ports(const std::string& job);

}  // namespace muster::bootstrap
