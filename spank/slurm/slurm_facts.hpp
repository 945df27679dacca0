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

/// What Slurm says about this step on this node. Read once, in user_init.
struct SlurmFacts {
  std::uint32_t uid = 0;
  std::uint32_t job_id = 0;
  std::uint32_t step_id = 0;
  std::string host;        ///< this node, as gethostname() says
  int local_tasks = 0;     ///< tasks of the step on this node
  int world_size = 0;      ///< tasks of the step
  std::vector<int> ranks;  ///< ranks[local rank] = rank; -1: only the tasks' environment says it
  int cpus_per_task = 0;   ///< as Slurm counts CPUs; 1 also when nobody asked
  int cpus_asked = 0;      ///< what -c of the step, else of the job around it, asked for; 0: nothing
  GpuRequest gpu_request;
  /// The step's GPUs on this node as Slurm names them: N of /dev/nvidiaN, or for MIG instances a number of
  /// Slurm's own or a UUID.
  std::vector<std::string> gpus;
  std::vector<std::string> cuda_devices;  ///< the same in CUDA_VISIBLE_DEVICES of the whole step
  bool heterogeneous = false;             ///< one of the components of srun a : b
  std::vector<StepShape> components;      ///< all of them; empty: an ordinary step, or Slurm does not say
  placement::CpuSet cpus;                 ///< CPUs this process may run on
  std::optional<placement::CpuSet>
      step_cores;           ///< the step's cores, counted as Slurm counts them (0 … on this node)
  std::vector<int> memory;  ///< NUMA domains this process may use
  std::string cpu_binding;  ///< the CPUs that the user named in --cpu-bind or SLURM_CPU_BIND; empty: none
};

/// @throws std::runtime_error when Slurm does not say what every step has (job, step, tasks).
SlurmFacts read_slurm_facts(spank_handle* spank);

/// The program that this node's tasks run, as srun was given it; empty: Slurm does not say.
std::string step_program(spank_handle* spank);

/// A variable of the job's environment; nullopt when it is not set.
std::optional<std::string> job_variable(spank_handle* spank, const std::string& name);

}  // namespace muster::spank
