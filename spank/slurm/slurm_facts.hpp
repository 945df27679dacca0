// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/topology/cpu_set.hpp"
#include "slurm/gpu_request.hpp"
#include "slurm/rank_layout.hpp"

struct spank_handle;

namespace muster::spank {

/// What Slurm reports about this step on this node. Read once, in user_init.
struct SlurmFacts {
  std::uint32_t uid = 0;
  std::uint32_t job_id = 0;
  std::uint32_t step_id = 0;
  std::string host;        ///< this node, from gethostname()
  int local_tasks = 0;     ///< tasks of the step on this node
  int world_size = 0;      ///< tasks of the step
  std::vector<int> ranks;  ///< ranks[local rank] = rank; -1: only the tasks' environment has it
  int cpus_per_task = 0;   ///< as Slurm counts CPUs; 1 also without a request
  int cpus_requested = 0;  ///< -c of the step, else of the surrounding job; 0: not given
  GpuRequest gpu_request;
  /// The step's GPUs on this node as Slurm names them: N of /dev/nvidiaN, or for MIG instances Slurm's own
  /// number or a UUID.
  std::vector<std::string> gpus;
  std::vector<std::string> cuda_devices;  ///< the same, from CUDA_VISIBLE_DEVICES of the whole step
  bool heterogeneous = false;             ///< one of the components of srun a : b
  std::vector<StepShape> components;      ///< all of them; empty: an ordinary step, or not known
  placement::CpuSet cpus;                 ///< CPUs this process may run on
  /// The step's cores, counted as Slurm counts them (0 … on this node).
  std::optional<placement::CpuSet> step_cores;
  std::vector<int> memory;  ///< NUMA domains this process may use
  std::string cpu_binding;  ///< the CPUs that the user named in --cpu-bind or SLURM_CPU_BIND; empty: none
};

/// @throws std::runtime_error if Slurm does not report what every step has (job, step, tasks).
SlurmFacts read_slurm_facts(spank_handle* spank);

/// The program that this node's tasks run, as given to srun; empty: not known.
std::string step_program(spank_handle* spank);

/// A variable of the job's environment; nullopt if it is not set.
std::optional<std::string> job_variable(spank_handle* spank, const std::string& name);

}  // namespace muster::spank
