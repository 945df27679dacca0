// SPDX-License-Identifier: Apache-2.0
// Device isolation: under --gpus-per-task Slurm hides each task's peers' GPUs in the device cgroup, which
// turns off CUDA IPC and with it NVLink between the ranks of a node (NVIDIA/nccl#1066). srun is asked not to,
// by a variable that it reads as one of its options; how depends on the Slurm that runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lift_mark.hpp"
#include "options.hpp"
#include "placement/topology/node.hpp"
#include "slurm/srun_command.hpp"

namespace muster::spank {

struct SlurmVersion {
  int major = 0, minor = 0, micro = 0;
  friend auto operator<=>(const SlurmVersion&, const SlurmVersion&) = default;
};

/// A variable that srun should find set.
struct Lift {
  std::string variable;
  std::string value;
  /// The GPUs of each task, where from now on only Muster tells the tasks' GPUs apart; 0: Slurm still does,
  /// in CUDA_VISIBLE_DEVICES.
  int gpus_per_task = 0;
};

/// How to lift the isolation of the step that this srun starts; nullopt: leave it as it is, because nobody
/// wants the step placed or its GPUs told apart, because the administrator or the user decided on the
/// binding, or because nothing isolates. Pure.
std::optional<Lift> lift_isolation(const SlurmVersion& slurm, const SrunCommand& srun,
                                   const Settings& settings, const ReadVariable& read);

/// The value of lift_mark: VARIABLE:COUNT.
std::string mark_of(const Lift& lift);

/// SLURM_GRES_FLAGS as it was before lift_isolation() added to it. Pure.
std::string flags_before_lift(const std::string& flags);

/// What a task that is not placed needs where srun had lifted the isolation: the CUDA_VISIBLE_DEVICES that
/// Slurm would have given it, so that the tasks of a node do not all end up on one GPU.
struct OwnShare {
  std::string cuda_devices;  ///< to be set; empty: nothing is to be done
  std::string problem;       ///< one line, when that is needed and cannot be told
};

/// mark: the value of lift_mark; binding: SLURMD_TRES_BIND; cuda_devices: CUDA_VISIBLE_DEVICES, each nullptr
/// when not set. Pure.
OwnShare own_share(const char* mark, const char* binding, const char* cuda_devices, int local_rank);

/// Whether the GPUs that Slurm names for each task are only dealt in the order of their numbers because
/// isolation was lifted by the flag and nobody bound the GPUs otherwise: Muster then deals them as it plans.
/// mark, binding: as in own_share(). tasks_per_gpu: --ntasks-per-gpu, which implies a binding to single GPUs.
/// Pure.
bool dealt_by_default(const char* mark, const char* binding, bool tasks_per_gpu);

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
