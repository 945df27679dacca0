// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/cpu_set.hpp"

struct spank_handle;

namespace muster::spank {

/// What Slurm says about this step on this node. Read once, in user_init.
struct SlurmFacts {
  std::uint32_t uid = 0;
  std::uint32_t job_id = 0;
  std::uint32_t step_id = 0;
  std::string host;             ///< this node, as gethostname() says
  int local_tasks = 0;          ///< tasks of the step on this node
  int world_size = 0;           ///< tasks of the step
  std::vector<int> ranks;       ///< ranks[local rank] = rank
  int cpus_per_task = 0;        ///< as Slurm counts CPUs; 0: not said
  int gpus_per_task = 0;        ///< 0: not said
  std::vector<int> gpu_minors;  ///< the step's GPUs on this node: N of /dev/nvidiaN
  placement::CpuSet cpus;       ///< CPUs this process may run on
  std::optional<placement::CpuSet>
      step_cores;           ///< the step's cores, counted as Slurm counts them (0 … on this node)
  std::vector<int> memory;  ///< NUMA domains this process may use
};

/// @throws std::runtime_error when Slurm does not say what every step has (job, step, tasks).
SlurmFacts read_slurm_facts(spank_handle* spank);

/// False for Slurm's own steps: batch script, extern, interactive.
bool is_ordinary_step(spank_handle* spank);

/// A variable of the job's environment; nullopt when it is not set.
std::optional<std::string> job_variable(spank_handle* spank, const std::string& name);

}  // namespace muster::spank
