// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpu_set/cpu_set.hpp"
#include "slurm/gpu_request.hpp"
#include "slurm/rank_layout.hpp"

struct spank_handle;

namespace muster::spank {

/// What Slurm reports about this step on this node. Read once, in user_init.
struct SlurmFacts {
  std::uint32_t job_id = 0;
  std::uint32_t leader_job = 0;  ///< the job, or the first component of a heterogeneous job
  std::uint32_t step_id = 0;
  std::string cluster, partition;
  std::string host;            ///< Slurm's name of this node; if it is not known, the host's
  std::uint32_t nodes = 0;     ///< of the step, in a heterogeneous one of this component; 0: not known
  std::size_t node_index = 0;  ///< this node's in them
  int local_tasks = 0;         ///< tasks of the step on this node
  int world_size = 0;          ///< tasks of the step
  std::vector<int> ranks;      ///< ranks[local rank] = rank; -1: only the tasks' environment has it
  StepShape shape;             ///< of the whole step
  int cpus_per_task = 0;       ///< as Slurm counts CPUs; 1 also without a request
  int cpus_requested = 0;      ///< -c of the step, else of the surrounding job; 0: not given
  GpuRequest gpu_request;
  /// The step's GPUs on this node as Slurm names them: N of /dev/nvidiaN, or for MIG instances Slurm's own
  /// number or a UUID.
  std::vector<std::string> gpus;
  std::vector<std::string> cuda_devices;  ///< the same, from CUDA_VISIBLE_DEVICES of the whole step
  bool heterogeneous = false;             ///< one of the components of srun a : b
  std::vector<StepShape> components;      ///< all of them; empty: an ordinary step, or not known
  CpuSet cpus;                            ///< CPUs this process may run on
  /// The step's cores, counted as Slurm counts them (0 … on this node).
  std::optional<CpuSet> step_cores;
  std::vector<int> memory;  ///< NUMA domains this process may use
  std::string cpu_binding;  ///< the CPUs that the user named in --cpu-bind or SLURM_CPU_BIND; empty: none
  std::vector<int> reserved_ports;  ///< those that Slurm reserved for the step on each node
  std::string srun_host;            ///< srun's address as slurmd knows it; empty: not known
};

/// What Slurm reports about one task, in task_init.
struct TaskFacts {
  int local_rank = 0;
  int rank = 0;
  GpuRequest gpu_request;                   ///< certain here, since Slurm passes the binding to tasks only
  std::optional<std::string> cuda_devices;  ///< CUDA_VISIBLE_DEVICES
  std::optional<std::string> isolation_marker;  ///< of isolation_marker.hpp
  std::optional<std::string> gpu_binding;       ///< SLURMD_TRES_BIND: how Slurm bound the task to GPUs
};

/// @throws std::runtime_error if Slurm does not report what every step has (job, step, tasks).
SlurmFacts read_slurm_facts(spank_handle* spank);

/// @throws std::runtime_error if Slurm does not report which task of the step this is.
TaskFacts read_task_facts(spank_handle* spank, const SlurmFacts& step);

/// The program that this node's tasks run, as given to srun; empty: not known.
std::string step_program(spank_handle* spank);

/// Looks up variables of the job's environment; in a task, of the task's. Valid as long as the handle.
placement::GetEnv job_environment(spank_handle* spank);

}  // namespace muster::spank
