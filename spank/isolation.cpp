// SPDX-License-Identifier: Apache-2.0
#include "isolation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace muster::spank {

namespace {

// srun's manual since 23.11: --gpus-per-task of the job implies this value and hands it on; it is nobody's
// choice.
bool is_implied(const char* tres_bind) {
  return std::string_view(tres_bind).starts_with("gres/gpu:per_task:");
}

bool exists(const std::string& file) { return access(file.c_str(), F_OK) == 0 || errno != ENOENT; }

}  // namespace

void ask_for_shared_devices(const std::vector<std::string>& command_line) {
  const auto wish = inherited_mode_from_environment();
  if (!wish || *wish == Mode::off || says_off(command_line)) return;
  if (std::getenv("SLURM_GPU_BIND") != nullptr || std::getenv("SLURM_GRES_FLAGS") != nullptr) return;
  if (const char* bind = std::getenv("SLURM_TRES_BIND")) {
    if (is_implied(bind)) setenv("SLURM_TRES_BIND", "gres/gpu:none", 1);
    return;
  }
  setenv("SLURM_GPU_BIND", "none", 0);
}

std::vector<int> allowed_minors(const std::vector<int>& minors, const std::string& folder) {
  const auto file_of = [&](int minor) { return folder + "/nvidia" + std::to_string(minor); };
  const bool any_there =
      std::any_of(minors.begin(), minors.end(), [&](int minor) { return exists(file_of(minor)); });
  if (!any_there) return minors;
  std::vector<int> allowed;
  for (const int minor : minors)
    // access() asks the device cgroup too, and unlike open() it does not wake a GPU whose driver is idle.
    if (access(file_of(minor).c_str(), R_OK | W_OK) == 0) allowed.push_back(minor);
  return allowed;
}

bool devices_confined(const placement::Node& node, const std::vector<int>& step_minors,
                      const std::string& folder) {
  std::vector<int> all;
  for (const auto& gpu : node.gpus)
    if (gpu.minor >= 0) all.push_back(gpu.minor);
  const std::vector<int> allowed = allowed_minors(all, folder);
  const auto in = [](const std::vector<int>& list, int minor) {
    return std::find(list.begin(), list.end(), minor) != list.end();
  };
  return std::any_of(all.begin(), all.end(),
                     [&](int minor) { return !in(step_minors, minor) && !in(allowed, minor); });
}

std::string isolation_notice(const std::string& host, int visible, int of) {
  return host + ": Slurm shows each task " + std::to_string(visible) + " of the step's " +
         std::to_string(of) +
         " GPUs, so NVLink and CUDA IPC between this node's ranks are off and NCCL takes slower paths; to "
         "avoid it, start the step "
         "with srun --gpu-bind=none, or give --muster to sbatch instead of srun";
}

}  // namespace muster::spank
