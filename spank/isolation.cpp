// SPDX-License-Identifier: Apache-2.0
#include "isolation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace muster::spank {

void ask_for_shared_devices(const Settings& settings) {
  const Wish wish = resolve(inherited_mode_from_environment(), settings);
  if (wish.mode == Mode::off) return;
  for (const char* chosen : {"SLURM_GPU_BIND", "SLURM_TRES_BIND", "SLURM_GRES_FLAGS"})
    if (std::getenv(chosen) != nullptr) return;
  setenv("SLURM_GPU_BIND", "none", 0);
}

std::vector<int> allowed_minors(const std::vector<int>& minors, const std::string& folder) {
  std::vector<int> allowed;
  for (const int minor : minors) {
    // access() asks the device cgroup too, and unlike open() it does not wake a GPU whose driver is idle.
    const std::string file = folder + "/nvidia" + std::to_string(minor);
    const bool denied = access(file.c_str(), R_OK | W_OK) != 0 && (errno == EPERM || errno == EACCES);
    if (!denied) allowed.push_back(minor);
  }
  return allowed;
}

bool devices_confined(const placement::Node& node, const std::vector<int>& step_minors,
                      const std::string& folder) {
  std::vector<int> others;
  for (const auto& gpu : node.gpus)
    if (gpu.minor >= 0 && std::find(step_minors.begin(), step_minors.end(), gpu.minor) == step_minors.end())
      others.push_back(gpu.minor);
  return allowed_minors(others, folder).size() < others.size();
}

std::string isolation_notice(const std::string& host, int visible, int of) {
  return host + ": Slurm shows each task " + std::to_string(visible) + " of the step's " +
         std::to_string(of) +
         " GPUs, so NVLink and CUDA IPC between this node's ranks are off and NCCL takes slower paths; to "
         "avoid it, start the step "
         "with srun --gpu-bind=none, or give --muster to sbatch instead of srun";
}

}  // namespace muster::spank
