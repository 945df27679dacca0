// SPDX-License-Identifier: Apache-2.0
// Device isolation: under --gpus-per-task Slurm hides each task's peers' GPUs in the device cgroup, which
// turns off CUDA IPC and with it NVLink between the ranks of a node (NVIDIA/nccl#1066).
#pragma once

#include <string>
#include <vector>

#include "options.hpp"
#include "placement/node.hpp"

namespace muster::spank {

/// In srun, before it reads its own options: asks Slurm to leave all GPUs of the step visible in every task,
/// by SLURM_GPU_BIND=none. Only inside a job that was submitted with --muster: a placement that the user
/// asked for either succeeds or ends the step, so no step runs on with all GPUs visible and nobody to tell
/// its tasks apart. Does nothing when `command_line` (srun's) says --muster=off or when the user chose a
/// binding in the environment; a --gpu-bind on srun's command line wins over it too.
void ask_for_shared_devices(const std::vector<std::string>& command_line);

/// Which of the GPU device files /dev/nvidia<minor> this process may open. One that is missing while others
/// are there (a container) is not allowed; where none is there, nothing is hidden and all are.
std::vector<int> allowed_minors(const std::vector<int>& minors, const std::string& folder = "/dev");

/// Whether GPUs of the node that are not the step's are denied to this process (ConstrainDevices). False on a
/// node whose GPUs are all the step's: then it makes no difference.
bool devices_confined(const placement::Node& node, const std::vector<int>& step_minors,
                      const std::string& folder = "/dev");

/// The line that tells what isolation costs and how to avoid it.
std::string isolation_notice(const std::string& host, int visible, int of);

}  // namespace muster::spank
