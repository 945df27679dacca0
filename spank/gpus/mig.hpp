// SPDX-License-Identifier: Apache-2.0
// MIG instances, as far as files tell: the driver lists each with the device files that one must open to use
// it (NVIDIA's MIG User Guide, "Device Nodes and Capabilities"), and Slurm lets a task open those of its own.
// So the parent GPU of what a task was given is known without asking NVML for UUIDs.
#pragma once

#include <string>
#include <vector>

namespace muster::spank {

/// A compute instance of a GPU instance.
struct MigInstance {
  int gpu_minor = -1;  ///< N of the parent's /dev/nvidiaN
  int gpu_instance = -1;
  int compute_instance = -1;
  std::vector<int> capabilities;  ///< minors N of /dev/nvidia-caps/nvidia-capN, both instances'

  /// "gpu0/gi1/ci0", as the driver's folders say it: unique on a node.
  std::string label() const;
};

/// All instances of the node, ascending by GPU minor, GPU instance and compute instance. Empty where no GPU
/// is in MIG mode.
std::vector<MigInstance> read_mig_instances(const std::string& root = "/");

/// Whether this process may open what the instance needs. In user_init that is so for the step's instances,
/// in task_init for the task's, where Slurm confines devices (seen with cgroup v1).
bool may_use(const MigInstance& instance, const std::string& root = "/");

}  // namespace muster::spank
