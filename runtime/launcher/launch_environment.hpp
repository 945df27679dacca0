// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/launcher_detection.hpp"

namespace muster::bootstrap {

/// Slurm's variables in a task of a step with several tasks.
struct SlurmStep {
  int rank = 0;
  int local_rank = 0;
  int size = 0;
  std::string job;                   ///< cluster, job, step and restart: unique
  std::vector<std::string> hosts;    ///< of the step, in Slurm's order
  std::string rank0_host;            ///< most likely host of rank 0; in a heterogeneous step it may be any
  std::vector<std::string> host_of;  ///< by rank; empty names when the distribution does not define them
  std::vector<std::uint16_t> ports;  ///< reserved with --resv-ports
  std::string port_seed;             ///< random, from the plugin in srun; empty without it
};

/// Nothing outside of a step with several tasks.
/// @throws Error(ErrorCode::environment) when the variables contradict each other.
std::optional<SlurmStep> read_slurm_step(const GetEnv& get_env);

/// What variables say of a job: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them, or
/// those that Kubernetes gives a pod.
struct EnvRendezvous {
  int rank = 0;
  int local_rank = 0;  ///< LOCAL_RANK, 0 without it
  int local_size = 0;  ///< LOCAL_WORLD_SIZE, 0 when unknown
  int size = 0;
  std::string variables;   ///< "RANK=1, WORLD_SIZE=4 and MASTER_ADDR=node1", with the names that were read
  std::string host;        ///< rank 0's
  std::uint16_t port = 0;  ///< MUSTER_PORT, else the one after MASTER_PORT, which the framework uses
  std::string job;         ///< distinguishes jobs that use the same address
};

/// The first of these whose variables are all set:
///   torchrun             RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
///   LeaderWorkerSet      LWS_WORKER_INDEX, LWS_GROUP_SIZE, LWS_LEADER_ADDRESS
///   Kubeflow Trainer     PET_NODE_RANK, PET_NNODES, PET_MASTER_ADDR
///   Indexed Job, JobSet  JOB_COMPLETION_INDEX, and the manifest's WORLD_SIZE and MASTER_ADDR
///   Volcano, one task    VC_TASK_INDEX, VC_(task)_NUM, the first of VC_(task)_HOSTS
/// A pod's MASTER_PORT, or PET_MASTER_PORT, may be missing: 29500. Nothing for a job of one rank.
/// @throws Error(ErrorCode::environment) when one of them is not a number in its range, when
/// PET_NPROC_PER_NODE promises more than one process in a pod, which torchrun would have started, or when a
/// Job of Volcano has several tasks, whose pods have no common order.
std::optional<EnvRendezvous> read_env_rendezvous(const GetEnv& get_env);

/// True below torchrun: RANK and WORLD_SIZE are then the innermost launcher's, and the variables of PMIx and
/// Slurm belong to what started torchrun.
bool is_below_torchrun(const GetEnv& get_env);

/// The error when RANK and WORLD_SIZE differ from the `rank` and `size` that the launcher gave this process:
/// another program below it may have started the ranks. Nothing when they agree, are not set, or when
/// Muster's plugin set them for an outer task.
std::optional<Error> check_rank_consistency(const GetEnv& get_env, int rank, int size);

/// "2(x3),1" → 2 2 2 1, Slurm's tasks of each node; empty for anything else.
std::vector<int> parse_task_counts(const std::string& list);
/// "12000-12003,12007" → its ports; empty for anything else.
std::vector<std::uint16_t> parse_port_list(const std::string& list);
/// Ports to try for a job, in this order, the same on every rank. All are between 10000 and 29999: outside
/// the ephemeral range and below Kubernetes' service ports (30000). With a seed, which other users do not
/// know, up to 8. Without one, anybody can compute them and take them first: up to 32.
std::vector<std::uint16_t> derive_ports(const std::string& job, const std::string& seed);

}  // namespace muster::bootstrap
