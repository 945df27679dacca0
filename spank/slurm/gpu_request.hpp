// SPDX-License-Identifier: Apache-2.0
// What a step asked of GPUs, read from the variables that srun sends to the nodes. Pure.
#pragma once

#include <string>
#include <string_view>

#include "placement/environment/environment.hpp"

namespace muster::spank {

struct GpuRequest {
  int per_task = 0;     ///< GPUs of each task; 0: not said
  bool shared = false;  ///< shards, MPS or --ntasks-per-gpu: several tasks use one GPU
  /// Slurm shows each task its own GPUs only, or would do so if the plugin had not lifted the isolation.
  /// False where Slurm shows every task all GPUs of the step (--gres, --gpus-per-node, --gpus). Certain in a
  /// task only: Slurm says the binding there.
  bool bound = false;
  std::string binding;         ///< of --gpu-bind, as "map_gpu:1,0"; empty: none
  bool tasks_per_gpu = false;  ///< --ntasks-per-gpu, which makes Slurm bind each task to a single GPU
};

/// The later releases of Slurm say in SLURM_TRES_PER_TASK what SLURM_GPUS_PER_TASK said before 23.11, and
/// that is the step's own where both are there; 22.05 says a step's own --gpus-per-task only in the binding.
GpuRequest read_gpu_request(const placement::Lookup& lookup);

/// The GPUs in a list of trackable resources, in every spelling that srun takes: "gres:gpu:1", "gres/gpu=2",
/// "cpu=1,gres/gpu:a100:2", "gres/gpu"; 0 when there are none.
int gpus_in_tres(std::string_view tres);

}  // namespace muster::spank
