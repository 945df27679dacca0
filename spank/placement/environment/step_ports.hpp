// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::placement {

/// TCP ports on which the frameworks of one step listen, the same on every node.
struct StepPorts {
  int master = 0;            ///< MASTER_PORT, on rank 0's node
  int coordinator = 0;       ///< JAX's coordinator, on rank 0's node; 0: none
  std::vector<int> workers;  ///< by local rank, on every node; ranks beyond have none
  std::string origin;        ///< where they come from, in words
};

/// Ports for a step of a job, without regard to others. Below the ephemeral ports (32768 …, ip(7)) and
/// Kubernetes' node ports (30000 …), above Slurm's own (6817 …): 10000 … 29999, cut into 1000 blocks of 20. A
/// job's first eight steps have the blocks 8 * job + step, further ones follow, so of 125 consecutive job ids
/// no two of the first 8 steps of any two jobs share a port, nor do 1000 consecutive steps of one job. Job
/// ids are the cluster's, so users do not matter; array tasks have consecutive ids of their own. job_id: the
/// leader's in a heterogeneous job. Pure.
StepPorts derive_ports(std::uint32_t job_id, std::uint32_t step_id);

/// The ports that Slurm reserved for the step (SLURM_STEP_RESV_PORTS) in their place: first master, then
/// coordinator, then workers, as far as they go; what they do not reach has no port, since a derived one
/// might be reserved for another step. `ports` as they are when none is reserved. Ports outside 1 … 65535 are
/// passed over. Pure.
StepPorts use_reserved(StepPorts ports, const std::vector<int>& reserved);

}  // namespace muster::placement
