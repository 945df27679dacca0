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
  std::vector<int> workers;  ///< by local rank, on every node; higher local ranks have none
  std::string origin;        ///< where they come from, for display
};

/// Ports for a step of a job, independent of other jobs. They lie below the ephemeral ports (32768 …, ip(7))
/// and Kubernetes' node ports (30000 …), and above Slurm's own (6817 …): 10000 … 29999, in 1000 blocks of 20.
/// Step s of job j has the block (8 j + s) mod 1000. So the first 8 steps of 125 jobs with consecutive ids
/// share no ports, nor do 1000 consecutive steps of one job. Job ids are unique in the cluster, and array
/// tasks have consecutive ids of their own. job_id: the leader's in a heterogeneous job. Pure.
StepPorts derive_ports(std::uint32_t job_id, std::uint32_t step_id);

/// Replaces `ports` by those that Slurm reserved for the step (SLURM_STEP_RESV_PORTS): first master, then
/// coordinator, then workers. If they do not suffice, the rest gets no port, because a derived one might be
/// reserved for another step. Returns `ports` unchanged if none is reserved. Skips ports outside 1 … 65535.
/// Pure.
StepPorts use_reserved(StepPorts ports, const std::vector<int>& reserved);

}  // namespace muster::placement
