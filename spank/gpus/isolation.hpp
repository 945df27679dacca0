// SPDX-License-Identifier: Apache-2.0
// Device isolation: under --gpus-per-task Slurm's device cgroup hides the other tasks' GPUs from each task,
// which turns off CUDA IPC and with it NVLink between the ranks of a node (NVIDIA/nccl#1066). Muster turns
// the isolation off with a variable that srun parses as one of its options; which one depends on Slurm's
// version.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "isolation_marker.hpp"
#include "options.hpp"
#include "placement/topology/node.hpp"
#include "slurm/srun_command.hpp"

namespace muster::spank {

struct SlurmVersion {
  int major = 0, minor = 0, micro = 0;
  friend auto operator<=>(const SlurmVersion&, const SlurmVersion&) = default;
};

/// A variable to set in srun.
struct IsolationOverride {
  std::string variable;
  std::string value;
  /// The number of GPUs that Muster must give each task; 0: Slurm still assigns them, in
  /// CUDA_VISIBLE_DEVICES.
  int gpus_per_task = 0;
};

/// How to turn isolation off for the step that this srun starts. nullopt: leave it, because the step is not
/// placed or gpu=off, because the administrator or the user chose the binding, or because nothing isolates.
/// Pure.
std::optional<IsolationOverride> choose_isolation_override(const SlurmVersion& slurm, const SrunCommand& srun,
                                                           const Settings& settings,
                                                           const ReadVariable& read);

/// The value of isolation_marker: VARIABLE:COUNT.
std::string encode_marker(const IsolationOverride& isolation_override);

/// SLURM_GRES_FLAGS as it was before choose_isolation_override() added to it. Pure.
std::string original_gres_flags(const std::string& flags);

/// The variables in which Slurm lists GPUs, all with the same list; gres.conf decides which of them it sets.
inline constexpr std::array gpu_list_variables = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                                  "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL"};

/// One of these variables.
struct GpuList {
  std::string variable;
  std::string gpus;
};

/// For a task that is not placed although srun turned isolation off: the lists that Slurm would have set, so
/// that the tasks of a node do not all use one GPU.
struct FallbackVisibility {
  std::vector<GpuList> own;  ///< to set; empty: nothing to do
  std::string problem;       ///< one line, if a list is needed but not known
};

/// mark: the value of isolation_marker; binding: SLURMD_TRES_BIND; each nullptr if not set. of_step: the
/// lists of the step's GPUs. Pure.
FallbackVisibility find_fallback_visibility(const char* marker, const char* binding,
                                            const std::vector<GpuList>& of_step, int local_rank);

/// Whether Slurm assigned GPUs to the tasks merely in the order of their numbers, because the flag turned
/// isolation off and nobody chose a binding. Muster then assigns them as it planned.
/// mark, binding: as in find_fallback_visibility(). tasks_per_gpu: --ntasks-per-gpu, which implies a binding
/// to single GPUs. Pure.
bool bound_by_default(const char* marker, const char* binding, bool tasks_per_gpu);

/// Which of the GPU device files /dev/nvidia<minor> this process may open. A file that is missing while
/// others exist (a container) is not allowed. If none exists, nothing is hidden and all are allowed.
std::vector<int> allowed_minors(const std::vector<int>& minors, const std::string& folder = "/dev");

/// Whether this process is denied the node's GPUs that are not the step's (ConstrainDevices). False if all
/// GPUs of the node are the step's: then it makes no difference.
bool devices_confined(const placement::Node& node, const std::vector<int>& step_minors,
                      const std::string& folder = "/dev");

/// The line that explains what isolation costs and how to avoid it.
std::string isolation_notice(const std::string& host, int visible, int of);

}  // namespace muster::spank
