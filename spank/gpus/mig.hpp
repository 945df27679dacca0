// SPDX-License-Identifier: Apache-2.0
// MIG instances, as the driver's files describe them. The driver lists each instance with the device files
// that a process must open to use it (NVIDIA's MIG User Guide, "Device Nodes and Capabilities"), and Slurm
// lets a task open those of its own. So the parent GPU of a task's instance is known without a query for
// UUIDs to NVML.
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

  /// "gpu0/gi1/ci0", as the driver names its folders. Unique on a node.
  std::string label() const;
};

/// All instances of the node, ascending by GPU minor, GPU instance and compute instance. Empty if no GPU is
/// in MIG mode.
std::vector<MigInstance> read_mig_instances(const std::string& root = "/");

/// Whether this process may open the instance's device files. If Slurm confines devices, that is true for the
/// step's instances in user_init and for the task's in task_init (seen with cgroup v1).
bool can_open(const MigInstance& instance, const std::string& root = "/");

}  // namespace muster::spank
