// SPDX-License-Identifier: Apache-2.0
// The GPUs that a step requested, read from the variables that srun sends to the nodes. Pure.
#pragma once

#include <string>
#include <string_view>

#include "placement/environment/environment.hpp"

namespace muster::spank {

struct GpuRequest {
  int per_task = 0;     ///< GPUs of each task; 0: not given
  bool shared = false;  ///< shards, MPS or --ntasks-per-gpu: several tasks use one GPU
  /// Slurm shows each task its own GPUs only, or would if the plugin had not turned isolation off. False if
  /// Slurm shows every task all GPUs of the step (--gres, --gpus-per-node, --gpus). Certain in a task only,
  /// since Slurm passes the binding only there.
  bool bound = false;
  std::string binding;         ///< of --gpu-bind, as "map_gpu:1,0"; empty: none
  bool tasks_per_gpu = false;  ///< --ntasks-per-gpu, which makes Slurm bind each task to a single GPU
};

/// From Slurm 23.11 on SLURM_TRES_PER_TASK has what SLURM_GPUS_PER_TASK had before; if both are set, the
/// former is the step's own. Slurm 22.05 gives a step's own --gpus-per-task only in the binding.
GpuRequest read_gpu_request(const placement::GetEnv& get_env);

/// The number of GPUs in a list of trackable resources (TRES), in every spelling that srun accepts:
/// "gres:gpu:1", "gres/gpu=2", "cpu=1,gres/gpu:a100:2", "gres/gpu"; 0 if there are none.
int gpus_in_tres(std::string_view tres);

}  // namespace muster::spank
